#include "graph/ops/op_names.h"

#include <vector>

#include "base/closest.h"
#include "graph/ops/op_table.h"

namespace qcg {

std::string_view short_op_name(std::string_view name) {
  name = name.substr(name.find('.') + 1);
  return name.substr(0, name.find('.'));
}

std::string similar_op(std::string_view name) {
  std::vector<std::string> names;
  for (const OpSchema& op : op_table())
    names.emplace_back(name.find('.') == name.npos ? short_op_name(op.name) : op.name);
  return did_you_mean(name, names);
}

}  // namespace qcg
