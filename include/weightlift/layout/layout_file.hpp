// Layout files, schema weightlift-layout/1: a layout as JSON text, so that one dumped from a real
// framework, or of an architecture without rules, plans and pushes like any other.
//
// {"schema": "weightlift-layout/1", "side": "trainer"|"rollout", "description": "tp=2",
//  "model": "name", "world_size": 2, "engine_begins": [0],
//  "tensors": [{"name": "a.weight", "dtype": "bf16", "shape": [64, 32]}],
//  "parameters": [{"name": "a.weight", "shape": [32, 32], "dtype": "bf16", "format": "plain",
//                  "ranks": [0], "pieces": [{"tensor": "a.weight", "box": [[0, 32], [0, 32]],
//                                            "offset": 0, "pitch": 64}],
//                  "padding": [{"offset": 0, "pitch": 64, "rows": 1, "row_bytes": 64}]}]}
// "tensors" lists the model's logical tensors in order; "ranks" are the holders of that shard.
#pragma once

#include <string>
#include <string_view>

#include "weightlift/layout/layout.hpp"

namespace weightlift::layout {

/// Text of a layout; parse_layout of it gives an equal digest.
[[nodiscard]] std::string emit_layout(const Layout& layout, const ModelSpec& model);

/// The "tensors" table of a layout file, as a model without an architecture.
[[nodiscard]] ModelSpec parse_layout_model(std::string_view json_text);

/// Parses and checks against `model`: every tensor of the file must be in it with equal shape and
/// dtype. Throws ConfigError naming parameter, field, value and rule.
[[nodiscard]] Layout parse_layout(std::string_view json_text, const ModelSpec& model);

}  // namespace weightlift::layout
