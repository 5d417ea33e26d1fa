// Included before all else where clang meets a LibTorch before 2.1 (cmake/Dependencies.cmake).
//
// These LibTorch's headers use members of std::vector<c10::IValue> before IValue is complete. GCC
// looks at such members when it needs their code, at the end; clang does so at once if they are
// constexpr, which they are in C++20. Here libstdc++'s <vector> is read without. Nothing else
// changes: neither layout nor names of its functions. Not for std::fill on std::vector<bool>.
#pragma once

#include <memory>
#include <string>

#ifdef __GLIBCXX__
#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // declared constexpr before
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
#endif
