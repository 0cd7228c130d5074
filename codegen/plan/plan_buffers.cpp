#include "codegen/plan/planner.h"

namespace qcg {

int Planner::add_buffer(PlanBuffer buffer) {
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<int>(plan_.buffers.size()) - 1;
}

int Planner::add_temp(const Shape& shape, DType dtype) {
  return add_buffer({BufferKind::temp, 0, product(shape) * Dim(static_cast<int64_t>(dtype_bytes(dtype))), -1, -1});
}

// The view of any value; a parameter read by something other than a linear becomes a plain constant on first use.
View Planner::view(ValueId id) {
  const Value& value = graph_.value(id);
  if (value.kind == ValueKind::parameter && views_[id].buffer < 0) {
    const int64_t bytes = value.data.numel() * static_cast<int64_t>(dtype_bytes(value.dtype));
    const int buffer = add_buffer({BufferKind::weights, 0, Dim(bytes), -1, -1});
    plan_.constants.push_back({buffer, bytes, value.data, -1, {}});
    views_[id] = dense_view(buffer, value.shape);
  }
  return views_[id];
}

View Planner::dense(ValueId id) {
  const View v = view(id);
  return is_dense(v) ? v : dense_view(copy_to_temp(v, graph_.value(id).dtype), v.shape);
}

int Planner::copy_to_temp(const View& v, DType dtype) {
  const int buffer = add_temp(v.shape, dtype);
  const bool named = current_ && !current_->origins.empty();
  add_copy(v, dense_view(buffer, v.shape), dtype, named ? "for " + current_->origins.front() : "to rows");
  return buffer;
}

// One element serves every row: a stride of 0.
PlanArg Planner::scale_arg(ValueId id) {
  if (!product(graph_.value(id).shape).is_constant(1)) return row_arg(id);
  const View one = view(id);
  return {one.buffer, offset_bytes(one, graph_.value(id).dtype), Dim(0)};
}

PlanArg Planner::row_arg(ValueId id) { return row_arg(view(id), graph_.value(id).dtype); }

PlanArg Planner::row_arg(View v, DType dtype) {
  if (!rows_of(v)) v = dense_view(copy_to_temp(v, dtype), v.shape);
  const Dim stride = rows_of(v)->stride;
  const BufferKind kind = plan_.buffers[v.buffer].kind;
  const Shape* own = kind == BufferKind::input    ? &plan_.input_types[plan_.buffers[v.buffer].index].shape
                     : kind == BufferKind::output ? &plan_.output_types[plan_.buffers[v.buffer].index].shape
                                                  : nullptr;
  if (own && own->size() == 2 && *own == v.shape && v.offset.is_constant(0) && is_dense(v))
    return {v.buffer, 0, std::nullopt};
  return {v.buffer, offset_bytes(v, dtype), stride};
}

// Where `id` is to be written: its placement when `fits` accepts it, else a temporary of its own.
View Planner::output_view(ValueId id, bool (*fits)(const View&)) {
  const Value& value = graph_.value(id);
  if (placed_[id] && fits(*placed_[id])) return *placed_[id];
  return dense_view(add_temp(value.shape, value.dtype), value.shape);
}

// Records where `id` was written and moves it to its placement if that is elsewhere.
void Planner::finish_output(ValueId id, const View& written) {
  views_[id] = written;
  if (!placed_[id] || placed_[id]->buffer == written.buffer) return;
  add_copy(written, *placed_[id], graph_.value(id).dtype, "into place");
  views_[id] = *placed_[id];
}

void Planner::add_row_step(PlanStep step, const std::vector<ValueId>& outputs) {
  std::vector<View> written;
  for (ValueId id : outputs) {
    written.push_back(output_view(id, [](const View& v) { return rows_of(v).has_value(); }));
    step.args.push_back(row_arg(written.back(), graph_.value(id).dtype));
  }
  plan_.steps.push_back(std::move(step));
  for (size_t i = 0; i < outputs.size(); ++i) finish_output(outputs[i], written[i]);
}

}  // namespace qcg
