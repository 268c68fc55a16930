// What KV rows would hold if a model had computed them: bytes that follow from all (token, form) up to the row.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace llmd {

struct KvWorld {
  explicit KvWorld(uint32_t pages, std::vector<KvStream> streams = {{0, "latent", 16}, {1, "latent", 24}})
      : layout(std::move(streams)), memory(layout.page_bytes() * pages + kKvPageAlignment) {
    void* at = memory.data();
    size_t space = memory.size();
    std::align(kKvPageAlignment, layout.page_bytes() * pages, at, space);
    pool = std::make_unique<KvPagePool>(
        layout, std::span(static_cast<std::byte*>(at), static_cast<size_t>(layout.page_bytes() * pages)));
  }

  /// The seed of the row's bytes, from that of the row before.
  static uint64_t next(uint64_t state, int32_t token, uint8_t form) {
    state = (state ^ (static_cast<uint64_t>(token) << 8 | form)) * 0x9E3779B97F4A7C15u;
    return state ^ state >> 29;
  }
  static std::byte row_byte(uint64_t state, size_t stream, uint64_t at) {
    return static_cast<std::byte>((state + stream * 77) >> at % 8 * 8);
  }

  /// Writes the rows [from, tokens.size()), which the sequence has room for.
  void compute(KvSequence& sequence, std::span<const int32_t> tokens, std::span<const uint8_t> forms,
               size_t from) const {
    each_row(sequence, tokens, forms, [&](size_t position, std::byte& byte, std::byte wanted) {
      if (position >= from) byte = wanted;
      return true;
    });
  }
  bool holds(KvSequence& sequence, std::span<const int32_t> tokens, std::span<const uint8_t> forms) const {
    return each_row(sequence, tokens, forms,
                    [](size_t, const std::byte& byte, std::byte wanted) { return byte == wanted; });
  }

  template <typename F>
  bool each_row(KvSequence& sequence, std::span<const int32_t> tokens, std::span<const uint8_t> forms, F visit) const {
    uint64_t state = 1;
    for (size_t p = 0; p < tokens.size(); p++) {
      state = next(state, tokens[p], forms[p]);
      for (size_t s = 0; s < layout.streams().size(); s++) {
        std::byte* row = sequence.row(s, static_cast<int32_t>(p));
        for (uint64_t b = 0; b < layout.streams()[s].bytes_per_token; b++)
          if (!visit(p, row[b], row_byte(state, s, b))) return false;
      }
    }
    return true;
  }

  KvLayout layout;
  std::vector<std::byte> memory;
  std::unique_ptr<KvPagePool> pool;
};

}  // namespace llmd
