# Writes the commit of the sources into a C++ source, if it is another one than that of the file.
#
#   cmake -DSOURCE=<project> -DOUTPUT=commit.cpp -P commit.cmake
#
# A checkout asks git. An archive that `git archive` made has the commit in cmake/commit.txt (.gitattributes). Other
# copies of the sources know none.
set(commit "")
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
else()
  file(STRINGS ${SOURCE}/cmake/commit.txt commit LIMIT_COUNT 1)
  string(SUBSTRING "${commit}" 0 12 commit)
endif()
if(NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit "")
endif()
set(text "namespace qcg {\nextern const char* const kCommit;\nconst char* const kCommit = \"${commit}\";\n}\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
