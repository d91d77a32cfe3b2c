#include "coverage.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/format.h>

namespace weightlift::layout {
namespace {

/// What a piece and a padding have in common: rows of bytes at a pitch.
struct Strip {
    Bytes offset, pitch, rows, row_bytes;
    std::size_t index;  ///< of the piece; paddings are numbered on after the pieces

    [[nodiscard]] bool contiguous() const { return rows == 1 || pitch == row_bytes; }
};

/// Columns [begin, end) of bytes on rows [first, last) of the rectangle that a common pitch makes.
struct Rectangle {
    Bytes first, last, begin, end;
    std::size_t index;
};

class Content {
public:
    Content(const Parameter& parameter, const ModelSpec& model)
        : parameter_(parameter), model_(model) {
        strips_.reserve(parameter.pieces.size() + parameter.padding.size());
    }

    void check() {
        bytes_ = size();
        Bytes covered = 0;
        for (const Piece& piece : parameter_.pieces) {
            check_piece(piece);
            const Bytes row = piece.box.columns.size() * element_bytes(parameter_.dtype);
            covered = add({piece.offset, piece.pitch, piece.box.rows.size(), row, 0}, covered);
        }
        for (const Padding& padding : parameter_.padding)
            covered =
                add({padding.offset, padding.pitch, padding.rows, padding.row_bytes, 0}, covered);
        // With no byte covered twice, the sum of the sizes says that none is left out.
        if (std::all_of(strips_.begin(), strips_.end(),
                        [](const Strip& strip) { return strip.contiguous(); }))
            check_intervals();
        else
            check_rectangles();
        if (covered != bytes_)
            fail(fmt::format("pieces and padding cover {} of its {} bytes", covered, bytes_));
    }

private:
    [[noreturn]] void fail(const std::string& rule) const {
        throw ConfigError(fmt::format("layout parameter {}: {}", parameter_.name, rule));
    }
    [[nodiscard]] std::string name_of(std::size_t index) const {
        if (index >= parameter_.pieces.size())
            return fmt::format("padding {}", index - parameter_.pieces.size());
        return fmt::format("piece {} ({})", index,
                           model_.tensor(parameter_.pieces[index].tensor).name);
    }

    [[nodiscard]] Bytes size() const {
        Bytes bytes = element_bytes(parameter_.dtype);
        if (parameter_.shape.dimensions < 1 || parameter_.shape.dimensions > 3)
            fail(fmt::format("shape has {} dimensions, not 1 to 3", parameter_.shape.dimensions));
        for (const std::uint64_t n : parameter_.shape.values()) {
            if (n == 0) fail("shape has a dimension of 0");
            bytes = checked_mul(bytes, n, parameter_.name.c_str());
        }
        return bytes;
    }

    void check_piece(const Piece& piece) const {
        const std::size_t index = strips_.size();
        if (piece.tensor >= model_.tensors().size())
            fail(fmt::format("piece {} is of tensor number {}, but the model has {}", index,
                             piece.tensor, model_.tensors().size()));
        const model::TensorSpec& tensor = model_.tensor(piece.tensor);
        if (piece.box.empty()) fail(fmt::format("{} has an empty box", name_of(index)));
        if (!tensor.box().contains(piece.box))
            fail(fmt::format("{} has box [[{}, {}], [{}, {}]] outside its tensor of {} x {}",
                             name_of(index), piece.box.rows.begin, piece.box.rows.end,
                             piece.box.columns.begin, piece.box.columns.end, tensor.rows,
                             tensor.columns));
        if (tensor.dtype != parameter_.dtype)
            fail(fmt::format("{} is {}, the parameter {}", name_of(index),
                             weightlift::to_string(tensor.dtype),
                             weightlift::to_string(parameter_.dtype)));
    }

    /// Checks that the strip lies inside, keeps it, and returns `covered` plus its bytes.
    Bytes add(Strip strip, Bytes covered) {
        strip.index = strips_.size();
        if (strip.rows == 0 || strip.row_bytes == 0)
            fail(fmt::format("{} is empty", name_of(strip.index)));
        if (strip.pitch < strip.row_bytes)
            fail(fmt::format("{} has pitch {} below its row of {} bytes", name_of(strip.index),
                             strip.pitch, strip.row_bytes));
        Bytes end = 0;
        if (__builtin_mul_overflow(strip.rows - 1, strip.pitch, &end) ||
            __builtin_add_overflow(end, strip.row_bytes, &end) ||
            __builtin_add_overflow(end, strip.offset, &end) || end > bytes_)
            fail(
                fmt::format("{} at offset {}, {} rows of {} bytes, pitch {}, ends beyond the "
                            "parameter's {} bytes",
                            name_of(strip.index), strip.offset, strip.rows, strip.row_bytes,
                            strip.pitch, bytes_));
        strips_.push_back(strip);
        Bytes sum = 0;
        if (__builtin_add_overflow(covered, strip.rows * strip.row_bytes, &sum) || sum > bytes_)
            fail(fmt::format("{} overlaps others: pieces and padding sum to more than {} bytes",
                             name_of(strip.index), bytes_));
        return sum;
    }

    [[noreturn]] void fail_overlap(std::size_t a, std::size_t b) const {
        fail(fmt::format("{} overlaps {}", name_of(std::max(a, b)), name_of(std::min(a, b))));
    }

    void check_intervals() {
        const auto by_offset = [](const Strip& a, const Strip& b) { return a.offset < b.offset; };
        if (!std::is_sorted(strips_.begin(), strips_.end(), by_offset))
            std::sort(strips_.begin(), strips_.end(), by_offset);
        for (std::size_t i = 1; i < strips_.size(); ++i)
            if (strips_[i].offset <
                strips_[i - 1].offset + strips_[i - 1].rows * strips_[i - 1].row_bytes)
                fail_overlap(strips_[i].index, strips_[i - 1].index);
    }

    void check_rectangles() {
        const auto strided = std::find_if(strips_.begin(), strips_.end(),
                                          [](const Strip& s) { return !s.contiguous(); });
        const Bytes pitch = strided->pitch;
        std::vector<Rectangle> rectangles;
        for (const Strip& strip : strips_) {
            if (strip.contiguous()) {
                cut(strip, pitch, rectangles);
                continue;
            }
            if (strip.pitch != pitch)
                fail(
                    fmt::format("{} has pitch {} and {} has {}; strided pieces of one parameter "
                                "must share one pitch",
                                name_of(strided->index), pitch, name_of(strip.index), strip.pitch));
            const Bytes row = strip.offset / pitch, column = strip.offset % pitch;
            if (column + strip.row_bytes > pitch)
                fail(fmt::format("{} at offset {} crosses the row boundaries of its pitch {}",
                                 name_of(strip.index), strip.offset, pitch));
            rectangles.push_back(
                {row, row + strip.rows, column, column + strip.row_bytes, strip.index});
        }
        sweep(rectangles);
    }

    /// A contiguous run of bytes as up to three rectangles: head, full rows, tail.
    static void cut(const Strip& strip, Bytes pitch, std::vector<Rectangle>& rectangles) {
        Bytes begin = strip.offset;
        const Bytes end = begin + strip.rows * strip.row_bytes;
        if (begin % pitch != 0) {
            const Bytes row = begin / pitch, head = std::min(end - begin, pitch - begin % pitch);
            rectangles.push_back({row, row + 1, begin % pitch, begin % pitch + head, strip.index});
            begin += head;
        }
        if (end - begin >= pitch) {
            rectangles.push_back({begin / pitch, end / pitch, 0, pitch, strip.index});
            begin = end / pitch * pitch;
        }
        if (begin < end)
            rectangles.push_back({begin / pitch, begin / pitch + 1, 0, end - begin, strip.index});
    }

    /// Sweeps rows downwards; the live rectangles' columns are disjoint, so a new one can only
    /// overlap its neighbours among them.
    void sweep(std::vector<Rectangle>& rectangles) const {
        struct Event {
            Bytes row;
            bool begins;  // ends sort first: a rectangle may start where another stops
            const Rectangle* rectangle;
        };
        std::vector<Event> events;
        events.reserve(2 * rectangles.size());
        for (const Rectangle& rectangle : rectangles) {
            events.push_back({rectangle.first, true, &rectangle});
            events.push_back({rectangle.last, false, &rectangle});
        }
        std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
            return a.row != b.row ? a.row < b.row : a.begins < b.begins;
        });
        std::map<Bytes, const Rectangle*> live;
        for (const Event& event : events) {
            const Rectangle& rectangle = *event.rectangle;
            if (!event.begins) {
                live.erase(rectangle.begin);
                continue;
            }
            const auto after = live.lower_bound(rectangle.begin);
            if (after != live.end() && after->second->begin < rectangle.end)
                fail_overlap(rectangle.index, after->second->index);
            if (after != live.begin() && std::prev(after)->second->end > rectangle.begin)
                fail_overlap(rectangle.index, std::prev(after)->second->index);
            live.emplace_hint(after, rectangle.begin, &rectangle);
        }
    }

    const Parameter& parameter_;
    const ModelSpec& model_;
    Bytes bytes_ = 0;
    std::vector<Strip> strips_;
};

}  // namespace

void check_content(const Parameter& parameter, const ModelSpec& model) {
    Content(parameter, model).check();
}

}  // namespace weightlift::layout
