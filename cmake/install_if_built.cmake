# qcg_install_if_built(TARGET COMPONENT): what this directory installs from here on is left out where TARGET was not
# built, so that `cmake --install` installs what there is. An install of COMPONENT alone fails then and names TARGET.
function(qcg_install_if_built target component)
  install(CODE "
    if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
      if(CMAKE_INSTALL_COMPONENT)
        message(FATAL_ERROR \"${target} was not built: cmake --build ${PROJECT_BINARY_DIR} --target ${target}\")
      endif()
      message(STATUS \"Left out, not built: ${target}\")
      return()
    endif()" COMPONENT ${component})
endfunction()
