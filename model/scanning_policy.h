// ScanningPolicy: a replacement policy that looks at every offered expert of the class to find its victim.
//
// Simple enough to be obviously right, and too slow for pools of thousands of slots: for the policies that `llmd bench
// cache` compares with the default, and for tests. Thread: the pool's. Nothing is allocated after construction.
#pragma once

#include <span>
#include <vector>

#include "model/replacement.h"

namespace llmd {

class ScanningPolicy : public ReplacementPolicy {
 public:
  explicit ScanningPolicy(const PoolShape& shape);

  void offer(int32_t expert) final;
  void withdraw(int32_t expert) final;
  int32_t victim(int32_t size_class, int32_t layer) final;
  /// Not known without the others.
  bool hotter(int32_t, int32_t, int32_t) const override { return true; }

 protected:
  /// The index in `residents` (not empty, in no order) of the expert to give up.
  virtual size_t choose(std::span<const int32_t> residents, int32_t layer) = 0;

 private:
  std::vector<int32_t>& offered(int32_t expert);
  int32_t experts_;
  std::vector<int32_t> class_of_layer_;
  std::vector<std::vector<int32_t>> offered_;  // per size class
  std::vector<int32_t> place_;                 // of every expert in that; -1: not offered
};

}  // namespace llmd
