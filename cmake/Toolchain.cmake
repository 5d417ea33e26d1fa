# Compiler, flags, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers need these: ccache otherwise treats every use of one as a miss.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

add_library(slift_flags INTERFACE)
target_include_directories(slift_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
# No contraction and no fast-math: results must not depend on the processor's instruction set.
target_compile_options(slift_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
  -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion
  -ffp-contract=off -fno-math-errno -fpch-preprocess>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns falsely on std::string concatenation (GCC bug 105651).
  target_compile_options(slift_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(SLIFT_NATIVE)
  target_compile_options(slift_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(SLIFT_SANITIZE)
  # GCC 12 with sanitizers sees uninitialised variables inside <regex> where there are none.
  target_compile_options(slift_flags INTERFACE -fsanitize=address,undefined
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  target_link_options(slift_flags INTERFACE -fsanitize=address,undefined)
endif()

if(SLIFT_CUDA)
  # Norms use clusters of blocks and convolutions instructions that Hopper alone has.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a)
  elseif(NOT CMAKE_CUDA_ARCHITECTURES STREQUAL "90a")
    message(FATAL_ERROR "slift's CUDA kernels are for Hopper GPUs (H100, H200): "
      "CMAKE_CUDA_ARCHITECTURES must be 90a, got ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA_STANDARD 20)
  target_compile_definitions(slift_flags INTERFACE SLIFT_WITH_CUDA)
endif()
