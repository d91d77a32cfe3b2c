#include "shards.hpp"

#include <utility>

namespace weightlift::layout {

Interval slice(std::uint64_t n, std::size_t i, std::size_t parts) {
    WEIGHTLIFT_ENSURES(n % parts == 0);
    return {n / parts * i, n / parts * (i + 1)};
}

Draft::Draft(const ModelSpec& model, std::string_view name, RankSetId ranks) : model_(model) {
    parameter_.name = name;
    parameter_.ranks = ranks;
}

void Draft::append(TensorId tensor, const Box& box, std::uint64_t rows, std::uint64_t columns) {
    const model::TensorSpec& spec = model_.tensor(tensor);
    if (element_bytes_ == 0) {
        parameter_.dtype = spec.dtype;
        element_bytes_ = element_bytes(spec.dtype);
        columns_ = columns;
    }
    WEIGHTLIFT_ENSURES(columns == columns_);
    const Bytes row_bytes = (columns == 0 ? 1 : columns) * element_bytes_;
    if (rows > 0)
        parameter_.pieces.push_back(
            {tensor, box, rows_ * row_bytes, box.columns.size() * element_bytes_});
    rows_ += rows;
}

Draft& Draft::rows(TensorId tensor, Interval rows) {
    const model::TensorSpec& spec = model_.tensor(tensor);
    if (spec.dimensions == 1)
        append(tensor, {{0, 1}, rows}, rows.size(), 0);
    else
        append(tensor, {rows, {0, spec.columns}}, rows.size(), spec.columns);
    return *this;
}

Draft& Draft::columns(TensorId tensor, Interval columns) {
    const model::TensorSpec& spec = model_.tensor(tensor);
    append(tensor, {{0, spec.rows}, columns}, spec.rows, columns.size());
    return *this;
}

Draft& Draft::whole(TensorId tensor) {
    const model::TensorSpec& spec = model_.tensor(tensor);
    return rows(tensor, {0, spec.dimensions == 1 ? spec.columns : spec.rows});
}

Draft& Draft::pad_rows(std::uint64_t rows) {
    if (rows == 0) return *this;
    const Bytes row_bytes = columns_ * element_bytes_;
    parameter_.padding.push_back({rows_ * row_bytes, row_bytes, rows, row_bytes});
    rows_ += rows;
    return *this;
}

Parameter Draft::take() {
    parameter_.shape = columns_ == 0 ? Shape{{rows_, 0, 0}, 1} : Shape{{rows_, columns_, 0}, 2};
    return std::move(parameter_);
}

Parameter Draft::take_stacked(std::uint64_t count) {
    WEIGHTLIFT_ENSURES(rows_ % count == 0);
    parameter_.shape = {{count, rows_ / count, columns_}, 3};
    return std::move(parameter_);
}

void Shards::by_rows(std::string_view name, std::initializer_list<TensorId> tensors,
                     std::span<const RankSetId> family) {
    for (std::size_t i = 0; i < family.size(); ++i) {
        Draft shard = draft(name, family[i]);
        shard.reserve(tensors.size());
        for (const TensorId tensor : tensors) {
            const model::TensorSpec& spec = model_.tensor(tensor);
            const std::uint64_t rows = spec.dimensions == 1 ? spec.columns : spec.rows;
            shard.rows(tensor, slice(rows, i, family.size()));
        }
        add(shard.take());
    }
}

void Shards::by_columns(std::string_view name, TensorId tensor, std::span<const RankSetId> family) {
    const std::uint64_t columns = model_.tensor(tensor).columns;
    for (std::size_t i = 0; i < family.size(); ++i)
        add(draft(name, family[i]).columns(tensor, slice(columns, i, family.size())).take());
}

void Shards::vocabulary(std::string_view name, TensorId tensor, std::uint64_t padded,
                        std::span<const RankSetId> family) {
    const std::uint64_t rows = model_.tensor(tensor).rows;
    for (std::size_t i = 0; i < family.size(); ++i) {
        const Interval shard = slice(padded, i, family.size());
        const Interval real = intersect(shard, {0, rows});
        Draft parameter = draft(name, family[i]);
        // An all-padding shard still takes its width and dtype from the tensor.
        parameter.rows(tensor, real.empty() ? Interval{0, 0} : real);
        parameter.pad_rows(shard.size() - real.size());
        add(parameter.take());
    }
}

void Shards::whole(std::string_view name, TensorId tensor, RankSetId ranks) {
    add(draft(name, ranks).whole(tensor).take());
}

}  // namespace weightlift::layout
