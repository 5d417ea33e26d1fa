# Libraries. What is required stops with an error; what is optional says in one line what is off.
if(SLIFT_BUNDLE)
  list(PREPEND CMAKE_INCLUDE_PATH ${SLIFT_BUNDLE}/include)
endif()

find_package(Torch REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PNG REQUIRED)
find_path(CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(TOMLPP_INCLUDE toml++/toml.h REQUIRED)

# PyTorch's own LibTorch ships the headers of another fmt beside its own; the ones we link must win.
foreach(folder ${TORCH_INCLUDE_DIRS})
  if(EXISTS ${folder}/fmt/format.h AND NOT folder STREQUAL "/usr/include")
    find_path(FMT_INCLUDE fmt/format.h PATHS /usr/include NO_DEFAULT_PATH REQUIRED)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/fmt_first)
    file(CREATE_LINK ${FMT_INCLUDE}/fmt ${PROJECT_BINARY_DIR}/fmt_first/fmt SYMBOLIC)
    target_include_directories(slift_flags SYSTEM BEFORE INTERFACE ${PROJECT_BINARY_DIR}/fmt_first)
  endif()
endforeach()

# LibTorch as a system library: its headers are not held to our warnings.
add_library(slift_torch INTERFACE)
target_include_directories(slift_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
# PyTorch's libtorch.so exports its own, broken half of std::filesystem: libstdc++ must come first.
target_link_libraries(slift_torch INTERFACE stdc++ ${TORCH_LIBRARIES})
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(slift_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${torch_flags}>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND Torch_VERSION VERSION_LESS 2.1)
  target_compile_options(slift_torch INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:--include=${PROJECT_SOURCE_DIR}/cmake/vector_for_clang.h>)
endif()
if(CMAKE_DISABLE_PRECOMPILE_HEADERS)  # as clang-tidy wants it: what they hold comes as text
  target_compile_options(slift_torch INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:--include=torch/torch.h>
    $<$<COMPILE_LANGUAGE:CXX>:--include=fmt/format.h>)
endif()

# Data-parallel training goes through LibTorch's Gloo (CPUs) and NCCL (GPUs), whose headers are
# packages of their own; PyTorch's wheels put NCCL's beside LibTorch.
find_path(GLOO_INCLUDE gloo/rendezvous/store.h)
if(NOT GLOO_INCLUDE)
  message(STATUS "slift: Gloo headers not found, training on CPUs will use one process")
endif()
if(SLIFT_CUDA)
  find_path(NCCL_INCLUDE nccl.h PATHS ${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include)
  if(NOT NCCL_INCLUDE)
    message(STATUS "slift: NCCL's header not found, training will use one GPU")
  endif()
  # The cuDNN that LibTorch itself uses must win: a process can hold only one.
  set(cudnn_folder ${TORCH_INSTALL_PREFIX}/../nvidia/cudnn)
  find_path(CUDNN_INCLUDE cudnn_graph.h
            PATHS ${cudnn_folder}/include ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY NAMES libcudnn.so.9 cudnn
               PATHS ${cudnn_folder}/lib ${CUDAToolkit_LIBRARY_DIR} NO_DEFAULT_PATH)
  if(CUDNN_INCLUDE AND CUDNN_LIBRARY)
    add_library(slift_cudnn INTERFACE)
    target_include_directories(slift_cudnn SYSTEM INTERFACE ${CUDNN_INCLUDE})
    target_link_libraries(slift_cudnn INTERFACE ${CUDNN_LIBRARY})
    target_compile_definitions(slift_cudnn INTERFACE SLIFT_WITH_CUDNN)
  else()
    message(STATUS "slift: cuDNN 9 not found, convolutions are LibTorch's, which are slower")
  endif()
  if(NOT TARGET CUDA::cupti)
    message(STATUS "slift: CUPTI not found, `slift bench --kernels` will be off")
  endif()
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 13 takes LibTorch's inlined std::vector code for an overflow.
  target_compile_options(slift_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
    -Wno-array-bounds -Wno-stringop-overflow>)
endif()

# As little of HDF5 as is used: its CMake module also adds include paths that must be system ones.
add_library(slift_hdf5 INTERFACE)
target_include_directories(slift_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(slift_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
# HDF5 2 asks its users for definitions, which the precompiled header must be made with, too.
foreach(library ${HDF5_C_LIBRARIES})
  if(TARGET ${library})
    target_compile_definitions(slift_flags INTERFACE
      $<TARGET_PROPERTY:${library},INTERFACE_COMPILE_DEFINITIONS>)
  endif()
endforeach()

# FFTW in double and single precision; Eigen is headers only.
add_library(slift_fftw INTERFACE)
find_path(FFTW_INCLUDE fftw3.h REQUIRED)
find_library(FFTW_DOUBLE fftw3 REQUIRED)
find_library(FFTW_SINGLE fftw3f REQUIRED)
target_include_directories(slift_fftw SYSTEM INTERFACE ${FFTW_INCLUDE})
target_link_libraries(slift_fftw INTERFACE ${FFTW_DOUBLE} ${FFTW_SINGLE})

add_library(slift_eigen INTERFACE)
find_path(EIGEN_INCLUDE Eigen/Sparse PATH_SUFFIXES eigen3 REQUIRED)
target_include_directories(slift_eigen SYSTEM INTERFACE ${EIGEN_INCLUDE})

set(chart_candidates
    ${SLIFT_BUNDLE}/chart.min.js
    /usr/share/javascript/chart.js/chart.min.js)
set(SLIFT_CHART_JS "")
foreach(candidate ${chart_candidates})
  if(EXISTS ${candidate})
    set(SLIFT_CHART_JS ${candidate})
    break()
  endif()
endforeach()
if(NOT SLIFT_CHART_JS)
  message(STATUS "slift: Chart.js not found, reports will have pictures but no charts")
endif()
