# slift_library(name DEPENDS folder... [LINK target...] [TORCH]): the static library of one folder.
# All its *.cc become the library, its *_test.cc one GoogleTest program. DEPENDS lists the folders
# it may include from; TORCH adds LibTorch and the shared precompiled header.
if(SLIFT_TESTS)
  find_package(GTest REQUIRED)
  add_custom_target(unit_tests)  # all tests that stand beside their source
  include(GoogleTest)
endif()

# slift_test(target property value... [TEST_FILTER filter]): its tests, or some of them.
function(slift_test target)
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gtest_main slift_flags)
  target_compile_definitions(${target} PRIVATE
    SLIFT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" SLIFT_PROGRAM="$<TARGET_FILE:slift>")
  # A sanitized program read from a cold disk needs more than the 5 s it is given otherwise.
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
                       PROPERTIES TIMEOUT 600 ${ARGN})
endfunction()

function(slift_library name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPENDS;LINK;SOURCES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc cpu/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(slift_${name} STATIC ${sources} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND slift_)
  target_link_libraries(slift_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LINK} slift_flags)
  if(ARG_TORCH)
    target_link_libraries(slift_${name} PUBLIC slift_torch)
    slift_use_torch_header(slift_${name})
  endif()
  if(SLIFT_TESTS AND tests)
    add_executable(${name}_tests ${tests})
    target_link_libraries(${name}_tests PRIVATE slift_${name})
    if(ARG_TORCH)
      slift_use_torch_header(${name}_tests)
    endif()
    slift_test(${name}_tests LABELS unit)
    add_dependencies(unit_tests ${name}_tests)
  endif()
endfunction()

# LibTorch's headers take longer to parse than all of ours; they are parsed once.
function(slift_use_torch_header target)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  if(NOT TARGET slift_torch_header)
    file(WRITE ${PROJECT_BINARY_DIR}/torch_header.cc "")
    add_library(slift_torch_header OBJECT ${PROJECT_BINARY_DIR}/torch_header.cc)
    target_link_libraries(slift_torch_header PRIVATE slift_core slift_torch)
    target_precompile_headers(slift_torch_header PRIVATE <torch/torch.h> <fmt/format.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM slift_torch_header)
endfunction()

# slift_embed(out header NAME=path...): `out`, a source that defines slift::assets::NAME for each file.
function(slift_embed out header)
  set(files "")
  foreach(asset ${ARGN})
    string(REGEX REPLACE "^[^=]*=" "" path "${asset}")
    list(APPEND files ${path})
  endforeach()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${header} "-DASSETS=${ARGN}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed.cmake ${files}
    VERBATIM)
endfunction()
