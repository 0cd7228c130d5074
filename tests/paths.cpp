#include "tests/paths.h"

namespace qcg::test {

std::string source_dir() { return QCG_SOURCE_DIR; }
std::string binary_dir() { return QCG_BINARY_DIR; }
std::string cli_path() { return QCG_CLI; }

}  // namespace qcg::test
