// The template engine: any text is a template.
#include "codegen/template_engine/template_engine.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using qcg::TemplateValue;
  auto context = TemplateValue::dict(
      {{"a", 1}, {"s", "text"}, {"l", TemplateValue::list({1, "two", 3})}, {"d", TemplateValue::dict({{"k", 2}})}});
  qcg::TemplateLimits limits;
  limits.max_output = 1 << 20;
  limits.max_steps = 100'000;
  (void)qcg::render_string(qcg::fuzz::text(data, size), context, {}, limits);
  return 0;
}
