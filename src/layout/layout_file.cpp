#include "weightlift/layout/layout_file.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightlift/layout/parallel_config.hpp"

namespace weightlift::layout {
namespace {

using nlohmann::json;
constexpr std::string_view kSchema = "weightlift-layout/1";

/// A name may come from a path, which need not be UTF-8.
std::string json_string(std::string_view text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Emitted by hand: one line per tensor and per parameter keeps a large file readable and its
// differences reviewable, which no indentation of the library does.

std::string piece_text(const Piece& piece, const ModelSpec& model) {
    return fmt::format(
        R"({{"tensor": {}, "box": [[{}, {}], [{}, {}]], "offset": {}, "pitch": {}}})",
        json_string(model.tensor(piece.tensor).name), piece.box.rows.begin, piece.box.rows.end,
        piece.box.columns.begin, piece.box.columns.end, piece.offset, piece.pitch);
}

std::string padding_text(const Padding& padding) {
    return fmt::format(R"({{"offset": {}, "pitch": {}, "rows": {}, "row_bytes": {}}})",
                       padding.offset, padding.pitch, padding.rows, padding.row_bytes);
}

std::string parameter_text(const Parameter& parameter, const Layout& layout,
                           const ModelSpec& model) {
    std::string text = fmt::format(
        R"({{"name": {}, "shape": [{}], "dtype": "{}", "format": {}, "ranks": [{}], "pieces": [)",
        json_string(parameter.name), fmt::join(parameter.shape.values(), ", "),
        weightlift::to_string(parameter.dtype), json_string(parameter.format),
        fmt::join(layout.rank_set(parameter.ranks), ", "));
    std::string_view separator;
    for (const Piece& piece : parameter.pieces) {
        text.append(separator).append(piece_text(piece, model));
        separator = ", ";
    }
    text += "]";
    if (!parameter.padding.empty()) {
        text += R"(, "padding": [)";
        separator = "";
        for (const Padding& padding : parameter.padding) {
            text.append(separator).append(padding_text(padding));
            separator = ", ";
        }
        text += "]";
    }
    return text + "}";
}

std::string tensor_text(const model::TensorSpec& tensor) {
    const std::string shape = tensor.dimensions == 1
                                  ? fmt::format("{}", tensor.columns)
                                  : fmt::format("{}, {}", tensor.rows, tensor.columns);
    return fmt::format(R"({{"name": {}, "dtype": "{}", "shape": [{}]}})", json_string(tensor.name),
                       weightlift::to_string(tensor.dtype), shape);
}

/// A JSON value with the path that leads to it, for error messages.
class Node {
public:
    Node(const json& value, std::string path) : value_(&value), path_(std::move(path)) {}

    [[noreturn]] void fail(std::string_view rule) const {
        throw ConfigError(fmt::format("layout file {} {}", path_, rule));
    }

    /// An object with no other fields than these.
    void require_fields(std::initializer_list<std::string_view> known) const {
        if (!value_->is_object()) fail("must be an object");
        for (const auto& [key, unused] : value_->items())
            if (std::find(known.begin(), known.end(), key) == known.end())
                fail(
                    fmt::format("has unknown field '{}' (fields: {})", key, fmt::join(known, " ")));
    }
    [[nodiscard]] bool has(const char* key) const { return value_->contains(key); }
    [[nodiscard]] Node field(const char* key) const {
        if (!value_->is_object()) fail("must be an object");
        const auto found = value_->find(key);
        if (found == value_->end()) fail(fmt::format("lacks field '{}'", key));
        return {*found, fmt::format("{}.{}", path_, key)};
    }
    [[nodiscard]] std::size_t size() const {
        if (!value_->is_array()) fail("must be an array");
        return value_->size();
    }
    [[nodiscard]] Node item(std::size_t i) const {
        return {(*value_)[i], fmt::format("{}[{}]", path_, i)};
    }
    [[nodiscard]] const std::string& text() const {
        if (!value_->is_string()) fail("must be a string");
        return value_->get_ref<const std::string&>();
    }
    [[nodiscard]] std::uint64_t number() const {
        if (!value_->is_number_unsigned()) fail("must be a whole number, not negative");
        return value_->get<std::uint64_t>();
    }
    [[nodiscard]] Rank rank() const {
        const std::uint64_t value = number();
        if (value > kMaxWorldSize)
            fail(fmt::format("is {}, above the limit of {} ranks", value, kMaxWorldSize));
        return static_cast<Rank>(value);
    }
    [[nodiscard]] DType dtype() const {
        const auto parsed = parse_dtype(text());
        if (!parsed) fail(fmt::format("is '{}', not one of bf16, fp16, fp32, fp8", text()));
        return *parsed;
    }
    [[nodiscard]] Interval interval() const {
        if (size() != 2) fail("must be [begin, end]");
        return {item(0).number(), item(1).number()};
    }
    [[nodiscard]] Node named(const std::string& name) const {
        return {*value_, fmt::format("{} ({})", path_, name)};
    }

private:
    const json* value_;
    std::string path_;
};

json parse_json(std::string_view text) {
    try {
        return json::parse(text);
    } catch (const json::parse_error& error) {
        throw ConfigError(
            fmt::format("layout file is not JSON, at byte {}: {}", error.byte, error.what()));
    }
}

/// The file's root, of our schema.
Node root_of(const json& document) {
    const Node root(document, "root");
    root.require_fields({"schema", "side", "description", "model", "world_size", "engine_begins",
                         "tensors", "parameters"});
    if (root.field("schema").text() != kSchema)
        root.field("schema").fail(
            fmt::format("is '{}', not '{}'", root.field("schema").text(), kSchema));
    return root;
}

model::TensorSpec parse_tensor(const Node& node) {
    node.require_fields({"name", "dtype", "shape"});
    model::TensorSpec tensor;
    tensor.name = node.field("name").text();
    tensor.dtype = node.field("dtype").dtype();
    const Node shape = node.field("shape");
    if (shape.size() < 1 || shape.size() > 2) shape.fail("must have one or two dimensions");
    tensor.dimensions = static_cast<int>(shape.size());
    tensor.rows = tensor.dimensions == 2 ? shape.item(0).number() : 1;
    tensor.columns = shape.item(shape.size() - 1).number();
    return tensor;
}

Piece parse_piece(const Node& node, const ModelSpec& model) {
    node.require_fields({"tensor", "box", "offset", "pitch"});
    const Node name = node.field("tensor");
    const auto tensor = model.find(name.text());
    if (!tensor) name.fail(fmt::format("is '{}', which is not a tensor of the model", name.text()));
    const Node box = node.field("box");
    if (box.size() != 2) box.fail("must be [[row, row], [column, column]]");
    return {*tensor,
            {box.item(0).interval(), box.item(1).interval()},
            node.field("offset").number(),
            node.field("pitch").number()};
}

Parameter parse_parameter(const Node& node, const ModelSpec& model, LayoutBuilder& builder) {
    node.require_fields({"name", "shape", "dtype", "format", "ranks", "pieces", "padding"});
    Parameter parameter;
    parameter.name = node.field("name").text();
    if (parameter.name.empty()) node.field("name").fail("must not be empty");
    const Node shape = node.field("shape");
    if (shape.size() < 1 || shape.size() > parameter.shape.sizes.size())
        shape.fail("must have one to three dimensions");
    parameter.shape.dimensions = static_cast<int>(shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i)
        parameter.shape.sizes[i] = shape.item(i).number();
    parameter.dtype = node.field("dtype").dtype();
    if (node.has("format")) parameter.format = node.field("format").text();
    const Node ranks = node.field("ranks");
    std::vector<Rank> holders(ranks.size());
    for (std::size_t i = 0; i < holders.size(); ++i) holders[i] = ranks.item(i).rank();
    try {
        parameter.ranks = builder.rank_set(std::move(holders));
    } catch (const ConfigError& error) {
        ranks.fail(fmt::format("is refused: {}", error.what()));
    }
    const Node pieces = node.field("pieces");
    parameter.pieces.reserve(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i)
        parameter.pieces.push_back(parse_piece(pieces.item(i), model));
    if (!node.has("padding")) return parameter;
    const Node paddings = node.field("padding");
    for (std::size_t i = 0; i < paddings.size(); ++i) {
        const Node padding = paddings.item(i);
        padding.require_fields({"offset", "pitch", "rows", "row_bytes"});
        parameter.padding.push_back(
            {padding.field("offset").number(), padding.field("pitch").number(),
             padding.field("rows").number(), padding.field("row_bytes").number()});
    }
    return parameter;
}

/// Each tensor of the file must be the model's.
void check_tensors(const Node& tensors, const ModelSpec& model) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const model::TensorSpec tensor = parse_tensor(tensors.item(i));
        const Node node = tensors.item(i).named(tensor.name);
        const auto id = model.find(tensor.name);
        if (!id) node.fail(fmt::format("is not a tensor of model {}", model.name()));
        const model::TensorSpec& expected = model.tensor(*id);
        if (tensor != expected)
            node.fail(fmt::format("is {} x {} {}, but {} x {} {} in model {}", tensor.rows,
                                  tensor.columns, weightlift::to_string(tensor.dtype),
                                  expected.rows, expected.columns,
                                  weightlift::to_string(expected.dtype), model.name()));
    }
}

}  // namespace

std::string emit_layout(const Layout& layout, const ModelSpec& model) {
    std::string text = fmt::format(
        "{{\"schema\": \"{}\", \"side\": \"{}\", \"description\": {},\n \"model\": {}, "
        "\"world_size\": {}, \"engine_begins\": [{}],\n \"tensors\": [",
        kSchema, to_string(layout.side()), json_string(layout.description()),
        json_string(model.name()), layout.world_size(), fmt::join(layout.engine_begins(), ", "));
    std::string_view separator = "\n  ";
    for (const model::TensorSpec& tensor : model.tensors()) {
        text.append(separator).append(tensor_text(tensor));
        separator = ",\n  ";
    }
    text += "],\n \"parameters\": [";
    separator = "\n  ";
    for (const Parameter& parameter : layout.parameters()) {
        text.append(separator).append(parameter_text(parameter, layout, model));
        separator = ",\n  ";
    }
    return text + "]}\n";
}

ModelSpec parse_layout_model(std::string_view json_text) {
    const json document = parse_json(json_text);
    const Node root = root_of(document);
    const Node tensors = root.field("tensors");
    std::vector<model::TensorSpec> specs;
    specs.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) specs.push_back(parse_tensor(tensors.item(i)));
    return ModelSpec(root.field("model").text(), std::move(specs), std::nullopt);
}

Layout parse_layout(std::string_view json_text, const ModelSpec& model) {
    const json document = parse_json(json_text);
    const Node root = root_of(document);
    const std::string side = root.field("side").text();
    if (side != "trainer" && side != "rollout")
        root.field("side").fail(fmt::format("is '{}', not trainer or rollout", side));
    check_tensors(root.field("tensors"), model);
    const bool is_trainer = side == "trainer";
    LayoutBuilder builder(is_trainer ? Side::Trainer : Side::Rollout,
                          root.field("description").text(), root.field("world_size").rank());
    const Node begins = root.field("engine_begins");
    if (is_trainer && (begins.size() != 1 || begins.item(0).number() != 0))
        begins.fail("must be [0] for a trainer");
    for (std::size_t i = 0; !is_trainer && i < begins.size(); ++i)
        builder.begin_engine(begins.item(i).rank());
    const Node parameters = root.field("parameters");
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Node node = parameters.item(i);
        builder.add(parse_parameter(node.named(node.field("name").text()), model, builder));
    }
    return std::move(builder).finish(model);
}

}  // namespace weightlift::layout
