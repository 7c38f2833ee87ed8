// Selects code that is compiled for each value of a flag.
#pragma once

#include <type_traits>

namespace polycast::multi_tensor {

// Calls use with a std::true_type or a std::false_type for each flag.
template <class Use>
void dispatch_bools(const Use& use) {
  use();
}

template <class Use, class... Flags>
void dispatch_bools(const Use& use, bool first, Flags... flags) {
  const auto with_first = [&](auto constant) {
    dispatch_bools([&](auto... constants) { use(constant, constants...); }, flags...);
  };
  first ? with_first(std::true_type{}) : with_first(std::false_type{});
}

}  // namespace polycast::multi_tensor
