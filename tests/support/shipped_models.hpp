// The model configurations under jobs/models, read from the source tree.
#pragma once

#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "weightlift/model/config.hpp"

namespace weightlift::test {

/// `layers`: the first ones only, so that a test stays small; 0: all.
inline model::ModelSpec shipped_model(const std::string& name, std::uint64_t layers = 0) {
    const std::string path = WEIGHTLIFT_SOURCE_DIR "/jobs/models/" + name + ".json";
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    std::ostringstream text;
    text << file.rdbuf();
    model::ConfigOptions options;
    options.name = name;
    if (layers > 0) options.layers = layers;
    return model::parse_config(text.str(), options).spec;
}

}  // namespace weightlift::test
