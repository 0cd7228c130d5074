// OneDnn: the adapter module libqcodegen_onednn.so, found beside qcodegen and loaded.
//
// Why here: oneDNN is optional at build and at run time, so whoever needs it asks here. Load it only in a process that
// forks no more: the vendor's threads would not survive that.
//
//   run_in_child(20, [](ChildReport& report) {
//     const OneDnn lib = load_onednn();
//     report.send(lib.missing.empty() ? lib.version() : lib.missing);
//   });
#pragma once

#include <string>

#include "codegen/vendor/onednn_adapter.h"

namespace qcg {

// The module's entry points; it stays loaded as long as the process lives, as its threads do.
struct OneDnn {
  void* handle = nullptr;
  decltype(&qcg_onednn_version) version = nullptr;
  decltype(&qcg_onednn_check) check = nullptr;
  decltype(&qcg_onednn_create) create = nullptr;
  decltype(&qcg_onednn_run) run = nullptr;
  decltype(&qcg_onednn_read) read = nullptr;
  decltype(&qcg_onednn_destroy) destroy = nullptr;
  std::string missing;  // why there is none; empty: loaded
};
OneDnn load_onednn();

std::string find_onednn_module();  // its path; empty: qcodegen was built without it

// "oneDNN 2.6.3" or why there is none: for `doctor`. Asks in a child process, so that nothing is loaded into this one.
struct VendorStatus {
  bool found = false;
  std::string detail, remedy;
};
VendorStatus onednn_status();

}  // namespace qcg
