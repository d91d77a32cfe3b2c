// Row-major arrays of element identities with the few operations that frameworks shard with:
// chunk, concatenate, reshape. Oracles are written in these and know nothing of pieces.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "weightlift/layout/layout.hpp"

namespace weightlift::layout::oracle {

inline constexpr std::uint64_t kPadding = 0;
inline constexpr std::uint64_t kUnset = ~std::uint64_t{0};

struct Array {
    std::vector<std::size_t> shape;
    std::vector<std::uint64_t> values;

    friend bool operator==(const Array&, const Array&) = default;

    static Array filled(std::vector<std::size_t> shape, std::uint64_t value) {
        const std::size_t n =
            std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
        return {std::move(shape), std::vector<std::uint64_t>(n, value)};
    }

    [[nodiscard]] Array reshape(std::vector<std::size_t> to) const {
        Array result = filled(std::move(to), 0);
        if (result.values.size() != values.size()) throw std::logic_error("reshape");
        result.values = values;
        return result;
    }

    /// Part `index` of `parts` equal ones along a dimension, as torch.chunk.
    [[nodiscard]] Array chunk(std::size_t dimension, std::size_t index, std::size_t parts) const {
        if (shape[dimension] % parts != 0) throw std::logic_error("chunk");
        const std::size_t size = shape[dimension] / parts;
        return cut(dimension, index * size, (index + 1) * size);
    }

    [[nodiscard]] Array cut(std::size_t dimension, std::size_t begin, std::size_t end) const {
        std::size_t outer = 1, inner = 1;
        for (std::size_t i = 0; i < dimension; ++i) outer *= shape[i];
        for (std::size_t i = dimension + 1; i < shape.size(); ++i) inner *= shape[i];
        Array result{shape, {}};
        result.shape[dimension] = end - begin;
        for (std::size_t o = 0; o < outer; ++o)
            for (std::size_t m = begin; m < end; ++m)
                for (std::size_t i = 0; i < inner; ++i)
                    result.values.push_back(values[(o * shape[dimension] + m) * inner + i]);
        return result;
    }
};

/// As torch.cat.
inline Array concatenate(std::size_t dimension, const std::vector<Array>& arrays) {
    Array result{arrays.front().shape, {}};
    result.shape[dimension] = 0;
    std::size_t outer = 1;
    for (std::size_t i = 0; i < dimension; ++i) outer *= result.shape[i];
    for (const Array& a : arrays) result.shape[dimension] += a.shape[dimension];
    for (std::size_t o = 0; o < outer; ++o)
        for (const Array& a : arrays) {
            const std::size_t run = a.values.size() / outer;
            result.values.insert(result.values.end(),
                                 a.values.begin() + static_cast<std::ptrdiff_t>(o * run),
                                 a.values.begin() + static_cast<std::ptrdiff_t>((o + 1) * run));
        }
    return result;
}

inline Array stack(const std::vector<Array>& arrays) {
    std::vector<Array> slabs;
    for (const Array& a : arrays) {
        std::vector<std::size_t> shape = a.shape;
        shape.insert(shape.begin(), 1);
        slabs.push_back(a.reshape(shape));
    }
    return concatenate(0, slabs);
}

using Parameters = std::map<std::string, Array>;  ///< of one rank

/// Identity of element `index` of a tensor; never kPadding or kUnset.
inline std::uint64_t identity(TensorId tensor, std::uint64_t index) {
    return ((std::uint64_t{tensor} + 1) << 32) | index;
}

/// The checkpoint's tensor with every element's identity.
inline Array tensor(const ModelSpec& model, const std::string& name) {
    const TensorId id = model.id(name);
    const model::TensorSpec& spec = model.tensor(id);
    Array array = spec.dimensions == 1 ? Array::filled({spec.columns}, 0)
                                       : Array::filled({spec.rows, spec.columns}, 0);
    for (std::size_t i = 0; i < array.values.size(); ++i) array.values[i] = identity(id, i);
    return array;
}

}  // namespace weightlift::layout::oracle
