// dense: y = acc. Nothing to undo; here so that every scheme has its file.
#pragma once
QCG_INLINE vf dequant_dense(vf acc) { return acc; }
