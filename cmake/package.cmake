# Debian packages: `cpack -G DEB` in a build directory makes one of each component, of what is built.
#
#   cli      qcodegen                the compiler, its man page, completions and the schemas of its documents
#   runtime  libqcodegen-runtime0    the library that programs load
#   dev      libqcodegen-dev         headers, and the files of CMake and pkg-config
#   int4pack libqcodegen-int4pack0   a product with int4 weights on CUDA devices, where nvcc is installed; its header, too
set(package_of_cli qcodegen)
set(package_of_runtime libqcodegen-runtime0)
set(package_of_dev libqcodegen-dev)
set(package_of_int4pack libqcodegen-int4pack0)

# The license as Debian's policy has it: /usr/share/doc/PACKAGE/copyright.
function(qcg_install_license component)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright COMPONENT ${component}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package_of_${component}})
endfunction()

# Called behind all install rules.
macro(qcg_configure_packages)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME qcodegen)
  set(CPACK_PACKAGE_VENDOR qcodegen)
  set(CPACK_PACKAGE_CONTACT "qcodegen developers <qcodegen@example.invalid>")
  set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_COMPONENTS_ALL cli runtime dev)
  if(TARGET qcodegen_int4pack)
    list(APPEND CPACK_COMPONENTS_ALL int4pack)
  endif()
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

  set(CPACK_DEBIAN_CLI_PACKAGE_NAME ${package_of_cli})
  set(CPACK_DEBIAN_CLI_PACKAGE_SECTION devel)
  set(CPACK_COMPONENT_CLI_DESCRIPTION "compiler of quantized models to tuned native kernels
It compiles graphs of torch.export to directories of kernels, which a small
library loads and runs without Python and without a framework.")
  # It starts the compiler of C++ that it finds, and needs one.
  set(CPACK_DEBIAN_CLI_PACKAGE_DEPENDS "g++ (>= 4:11) | clang (>= 1:14)")
  set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS "${package_of_dev}, redis-server")

  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${package_of_runtime})
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
  set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "library that loads and runs programs of qcodegen
Programs that qcodegen compiled need it and nothing else.")

  set(CPACK_DEBIAN_DEV_PACKAGE_NAME ${package_of_dev})
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${package_of_runtime} (= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_DEV_DESCRIPTION "headers of the library that runs programs of qcodegen
For C and C++, with files for CMake and pkg-config.")

  set(CPACK_DEBIAN_INT4PACK_PACKAGE_NAME ${package_of_int4pack})
  set(CPACK_DEBIAN_INT4PACK_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_INT4PACK_PACKAGE_SUGGESTS ${package_of_dev})
  set(CPACK_COMPONENT_INT4PACK_DESCRIPTION "product with int4 weights on CUDA devices, as a C function
The weights are in tinygemm's layout, as aten::_weight_int4pack_mm takes them.
The library and its header; it needs no CUDA but the driver.")
  include(CPack)
endmacro()
