// ExternChoices: the vendor's kernels of one compile with --extern=auto: who is offered, and the weights they are tried
// with.
//
// Why here: extern_kernel.h knows one problem and one kernel; compile.cpp walks over problems and buckets. In between
// stands what is kept from bucket to bucket: a library is asked once per problem and weights are written once.
//
//   QCG_CHECK(externs.join(plan, batch, choice, alone));         // one more candidate, if there is one
//   if (const ExternKernel* k = externs.find(choice.problem)) …  // to link what won
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/batch.h"
#include "codegen/vendor/extern_kernel.h"

namespace qcg {

class ExternChoices {
 public:
  explicit ExternChoices(int threads) : threads_(threads) {}

  // Makes the vendor's kernel the last candidate of the choice, or the only one. Its weights last until another
  // problem's join; a choice that no vendor serves stays as it is.
  Status join(const Plan& plan, Batch& batch, Choice& choice, bool alone);

  const ExternKernel* find(int problem) const;                     // null: no vendor serves it
  const std::string& why_not(int problem) const;                   // empty: one does, or it was not asked
  const std::string& missing_library() const { return missing_; }  // why no vendor can be called on this machine
  void forget();                                                   // a plan is made again: problems have other numbers

 private:
  int threads_;
  std::map<int, ExternOffer> offers_;
  std::map<int, size_t> builds_;  // into Batch::kernels
  int written_ = -1;              // the problem whose weights are in weights_
  AlignedBuffer weights_;
  std::string missing_;
};

}  // namespace qcg
