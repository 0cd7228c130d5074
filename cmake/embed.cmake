# Turns text files into one C++ source, so that the binary carries its templates and needs no data directory.
#
#   cmake -DOUTPUT=embedded.cpp -DROOT=<templates> -DEXTRA=<file> -DFUNCTION=embedded_files -P embed.cmake
#
# Names are relative to ROOT ("cpu/gemm.cpp.j2"); EXTRA files keep their last component ("abi.h"). FUNCTION, in namespace
# qcg, gives the files.
file(GLOB_RECURSE names LIST_DIRECTORIES false RELATIVE ${ROOT} ${ROOT}/*)
list(SORT names)

set(text "#include \"codegen/kernel/embedded.h\"\n\nnamespace qcg {\nnamespace {\nconstexpr EmbeddedFile kFiles[] = {\n")
function(append_file name path)
  file(READ ${path} content)
  # A literal may be at most 64 KiB in places; pieces of 8000 characters are concatenated by the compiler.
  string(LENGTH "${content}" length)
  set(literal "")
  set(begin 0)
  while(begin LESS length)
    string(SUBSTRING "${content}" ${begin} 8000 piece)
    string(APPEND literal "R\"QCG_TEXT(${piece})QCG_TEXT\"\n")
    math(EXPR begin "${begin} + 8000")
  endwhile()
  if(length EQUAL 0)
    set(literal "\"\"")
  endif()
  set(text "${text}{\"${name}\", ${literal}},\n" PARENT_SCOPE)
endfunction()
foreach(name IN LISTS names)
  append_file(${name} ${ROOT}/${name})
endforeach()
foreach(path IN LISTS EXTRA)
  get_filename_component(name ${path} NAME)
  append_file(${name} ${path})
endforeach()
string(APPEND text "};\n}  // namespace\n\nstd::span<const EmbeddedFile> ${FUNCTION}() { return kFiles; }\n\n}  // namespace qcg\n")
file(WRITE ${OUTPUT} "${text}")
