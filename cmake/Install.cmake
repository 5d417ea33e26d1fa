# What `cmake --install` puts where: the program, licence and pages, configs. Libraries are the
# program's own and stay here. The program itself is named in src/cli.
include(GNUInstallDirs)
if(NOT TORCH_INSTALL_PREFIX STREQUAL "/usr")
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # the program finds a LibTorch of PyTorch's
endif()

install(FILES LICENSE README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md SECURITY.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
# In a folder as here, so that README's links lead to them.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/slift
        FILES_MATCHING PATTERN "*.toml")
