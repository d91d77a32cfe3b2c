#include "weightlift/model/model_spec.hpp"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "weightlift/base/error.hpp"
#include "weightlift/base/hash.hpp"
#include "weightlift/base/values.hpp"

namespace weightlift::model {
namespace {

void check_shape(const std::string& model, const TensorSpec& tensor) {
    const auto reject = [&](const std::string& rule) {
        throw ConfigError(fmt::format("{}: tensor {} {}", model, tensor.name, rule));
    };
    if (tensor.dimensions != 1 && tensor.dimensions != 2)
        reject(fmt::format("has {} dimensions, must have 1 or 2", tensor.dimensions));
    if (tensor.rows == 0 || tensor.columns == 0)
        reject(fmt::format("is {} x {}, sizes must be positive", tensor.rows, tensor.columns));
    if (tensor.dimensions == 1 && tensor.rows != 1)
        reject(fmt::format("has 1 dimension and {} rows, must have 1 row", tensor.rows));
    if (tensor.columns >= kMaxColumns)
        reject(fmt::format("has {} columns, must have fewer than {}", tensor.columns, kMaxColumns));
    constexpr auto most_elements = std::numeric_limits<Bytes>::max();
    if (tensor.rows > most_elements / element_bytes(tensor.dtype) / tensor.columns)
        reject(
            fmt::format("is {} x {}, its bytes must fit in 64 bits", tensor.rows, tensor.columns));
}

}  // namespace

ModelSpec::ModelSpec(std::string name, std::vector<TensorSpec> tensors,
                     std::optional<Architecture> architecture)
    : name_(std::move(name)), tensors_(std::move(tensors)), architecture_(std::move(architecture)) {
    const auto count = narrow<TensorId>(tensors_.size(), "number of tensors");
    keys_.reserve(count);
    ids_.reserve(count);
    for (TensorId id = 0; id < count; ++id) {
        const TensorSpec& tensor = tensors_[id];
        check_shape(name_, tensor);
        if (!ids_.emplace(tensor.name, id).second)
            throw ConfigError(fmt::format("{}: tensor {} is there twice, names must be unique",
                                          name_, tensor.name));
        keys_.push_back(hash_name(tensor.name));
        parameters_ = checked_add(parameters_, tensor.elements(), "parameters of the model");
        bytes_ = checked_add(bytes_, tensor.bytes(), "bytes of the model");
    }
}

std::optional<TensorId> ModelSpec::find(std::string_view name) const {
    const auto found = ids_.find(name);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

TensorId ModelSpec::id(std::string_view name) const {
    if (const auto found = find(name)) return *found;
    throw Error(ExitCode::Internal,
                fmt::format("internal error: {} has no tensor {}", name_, name));
}

}  // namespace weightlift::model
