#include "plan_json.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightlift/plan/copy.hpp"

namespace weightlift::app {

namespace {

using layout::Layout;
using plan::Transfer;

std::string quote(const std::string& text) { return nlohmann::json(text).dump(); }

/// Each name is escaped once, not once per transfer.
std::vector<std::string> quoted_names(const Layout& layout) {
    std::vector<std::string> names;
    for (const auto& parameter : layout.parameters()) names.push_back(quote(parameter.name));
    return names;
}

class PlanWriter {
public:
    PlanWriter(std::FILE* out, const Scene& scene, const plan::Planner& planner)
        : out_(out),
          scene_(scene),
          planner_(planner),
          trainer_names_(quoted_names(scene.trainer)),
          rollout_names_(quoted_names(scene.rollout)) {
        for (const auto& tensor : scene.model.tensors())
            tensor_names_.push_back(quote(tensor.name));
    }

    void header(std::uint64_t digest, Bytes bytes) {
        const auto engines = scene_.rollout.engine_begins().size();
        fmt::print(out_,
                   "{{\"schema\": \"weightlift-plan/1\", \"digest\": \"{:016x}\",\n"
                   " \"model\": {{\"name\": {}, \"parameters\": {}, \"bytes\": {}}},\n"
                   " \"trainer\": {{\"layout\": {}, \"world_size\": {}}},\n"
                   " \"rollout\": {{\"layout\": {}, \"engines\": {}, \"world_size\": {}}},\n"
                   " \"bytes\": {},\n",
                   digest, quote(scene_.model.name()), scene_.model.parameter_count(),
                   scene_.model.bytes(), quote(scene_.trainer.description()), planner_.trainers(),
                   quote(scene_.rollout.description()), engines, planner_.rollouts(), bytes);
    }

    void transfers() {
        begin_steps();
        for (Rank dst = planner_.trainers(); dst < planner_.world_size(); ++dst)
            for (const Transfer& t : planner_.received_by(dst)) {
                entry();
                text_ += fmt::format("{{\"tensor\": {}, \"box\": ", tensor_names_[t.tensor]);
                const auto& box = t.box;
                if (scene_.model.tensor(t.tensor).dimensions == 2)
                    text_ += fmt::format("[[{}, {}], [{}, {}]]", box.rows.begin, box.rows.end,
                                         box.columns.begin, box.columns.end);
                else
                    text_ += fmt::format("[[{}, {}]]", box.columns.begin, box.columns.end);
                endpoints(t.src.rank, trainer_names_[t.src.parameter], t.src.offset, t.src.pitch,
                          t.dst.rank, rollout_names_[t.dst.parameter], t.dst.offset, t.dst.pitch);
                text_ += fmt::format(", \"rows\": {}, \"row_bytes\": {}}}", t.rows, t.row_bytes);
            }
        end_steps();
    }

    void merged() {
        begin_steps();
        std::vector<plan::ArenaMap> rollouts;
        for (Rank r = 0; r < planner_.rollouts(); ++r) rollouts.emplace_back(scene_.rollout, r);
        for (Rank src = 0; src < planner_.trainers(); ++src) {
            const plan::ArenaMap map(scene_.trainer, src);
            const std::vector<Transfer> sent = planner_.sent_by(src);
            std::vector<std::vector<plan::Copy>> lists;
            std::vector<Rank> destinations;
            plan::for_each_pair(sent, [&](std::span<const Transfer> run) {
                const Rank dst = run.front().dst.rank;
                lists.push_back(plan::merge_transfers(
                    run, static_cast<std::uint32_t>(destinations.size()), map,
                    rollouts[static_cast<std::size_t>(dst - planner_.trainers())]));
                destinations.push_back(dst);
            });
            if (lists.empty()) continue;
            const auto first = plan::first_destination(
                static_cast<std::uint64_t>(src), static_cast<std::uint64_t>(planner_.trainers()),
                lists.size());
            for (const plan::Copy& c : plan::rotate_copies(lists, first, plan::kRotationChunk)) {
                const Rank dst = destinations[c.destination];
                const auto& dst_map = rollouts[static_cast<std::size_t>(dst - planner_.trainers())];
                const auto [src_parameter, src_offset] = locate(map, c.src_offset);
                const auto [dst_parameter, dst_offset] = locate(dst_map, c.dst_offset);
                entry();
                text_ += "{";
                endpoints(src, trainer_names_[src_parameter], src_offset, c.src_pitch, dst,
                          rollout_names_[dst_parameter], dst_offset, c.dst_pitch);
                text_.erase(text_.find("{, ") + 1, 2);
                text_ += fmt::format(", \"rows\": {}, \"row_bytes\": {}}}", c.rows, c.row_bytes);
            }
        }
        end_steps();
    }

    /// Of all ranks, step by step.
    void steps(const plan::StepPlanner& stepper) {
        std::vector<plan::ArenaMap> maps;
        for (Rank r = 0; r < planner_.trainers(); ++r) maps.emplace_back(scene_.trainer, r);
        for (Rank r = 0; r < planner_.rollouts(); ++r) maps.emplace_back(scene_.rollout, r);
        std::fputs(" \"steps\": [", out_);
        for (std::size_t step = 0; step < stepper.steps().size(); ++step) {
            fmt::print(out_, "{}{{\"name\": \"{}\", \"transfers\": [", step == 0 ? "" : ",\n",
                       stepper.steps()[step]);
            is_first_ = true;
            for (Rank rank = 0; rank < planner_.world_size(); ++rank) {
                const plan::StepPart part = stepper.part_of(rank);
                for (std::size_t i = 0; i < part.sent.size(); ++i)
                    if (part.sent[i].step == step) segment(part.sent[i], i, maps);
            }
            flush();
            std::fputs("]}", out_);
        }
        std::fputs("],\n \"gates\": [", out_);
        is_first_ = true;
        for (Rank rank = 0; rank < planner_.world_size(); ++rank)
            for (const plan::Gate& gate : stepper.part_of(rank).gates) {
                entry();
                text_ +=
                    fmt::format("{{\"rank\": {}, \"segment\": {}, \"source\": {}, \"count\": {}}}",
                                rank, gate.segment, gate.source, gate.count);
            }
        flush();
        std::fputs("],\n", out_);
    }

    void padding() {
        std::fputs(" \"padding\": [", out_);
        is_first_ = true;
        for (Rank r = 0; r < planner_.rollouts(); ++r)
            for (const auto p : scene_.rollout.parameters_of(r))
                for (const auto& pad : scene_.rollout.parameter(p).padding) {
                    entry();
                    text_ += fmt::format(
                        "{{\"rank\": {}, \"parameter\": {}, \"offset\": {}, \"pitch\": {}, "
                        "\"rows\": {}, \"row_bytes\": {}}}",
                        planner_.trainers() + r, rollout_names_[p], pad.offset, pad.pitch, pad.rows,
                        pad.row_bytes);
                }
        flush();
        std::fputs("]}\n", out_);
    }

private:
    static std::pair<layout::ParameterIndex, Bytes> locate(const plan::ArenaMap& map,
                                                           Bytes offset) {
        std::size_t low = 0, high = map.parameters().size();
        while (high - low > 1) {
            const std::size_t middle = (low + high) / 2;
            (map.offset_at(middle) <= offset ? low : high) = middle;
        }
        return {map.parameters()[low], offset - map.offset_at(low)};
    }

    void segment(const plan::StepSegment& segment, std::size_t number,
                 const std::vector<plan::ArenaMap>& maps) {
        const auto begin = [&] {
            entry();
            text_ += fmt::format("{{\"segment\": {}, \"round\": {}", number, segment.round);
        };
        if (segment.copies.empty()) {
            begin();
            text_ += fmt::format(", \"src\": {{\"rank\": {}}}, \"dst\": {{\"rank\": {}}}}}",
                                 segment.src, segment.dst);
        }
        for (const plan::Copy& c : segment.copies) {
            begin();
            text_ += ", \"src\": ";
            place(segment.src, maps, c.src_offset, c.src_pitch);
            text_ += ", \"dst\": ";
            place(segment.dst, maps, c.dst_offset, c.dst_pitch);
            text_ += fmt::format(", \"rows\": {}, \"row_bytes\": {}}}", c.rows, c.row_bytes);
        }
    }
    /// In a parameter of the rank's, or in its staging.
    void place(Rank rank, const std::vector<plan::ArenaMap>& maps, Bytes offset, Bytes pitch) {
        const plan::ArenaMap& map = maps[static_cast<std::size_t>(rank)];
        if (offset >= map.bytes()) {
            end(rank);
            text_ += fmt::format(", \"buffer\": \"staging\", \"offset\": {}, \"pitch\": {}}}",
                                 offset - map.bytes(), pitch);
            return;
        }
        const auto [parameter, within] = locate(map, offset);
        const auto& names = rank < planner_.trainers() ? trainer_names_ : rollout_names_;
        in_weights(rank, names[parameter], within, pitch);
    }
    void end(Rank rank) {
        text_ += fmt::format("{{\"rank\": {}", rank);
        if (const Rank rollout = rank - planner_.trainers(); rollout >= 0)
            text_ += fmt::format(", \"engine\": {}, \"engine_rank\": {}",
                                 scene_.rollout.engine_of(rollout),
                                 scene_.rollout.engine_rank_of(rollout));
    }
    void in_weights(Rank rank, const std::string& parameter, Bytes offset, Bytes pitch) {
        end(rank);
        text_ += fmt::format(
            ", \"buffer\": \"weights\", \"parameter\": {}, \"offset\": {}, \"pitch\": {}}}",
            parameter, offset, pitch);
    }

    void begin_steps() { std::fputs(" \"steps\": [{\"name\": \"push\", \"transfers\": [", out_); }
    void end_steps() {
        flush();
        std::fputs("]}],\n", out_);
    }
    void entry() {
        flush();
        std::fputs(is_first_ ? "\n  " : ",\n  ", out_);
        is_first_ = false;
    }
    void flush() {
        std::fwrite(text_.data(), 1, text_.size(), out_);
        text_.clear();
    }
    void endpoints(Rank src, const std::string& src_name, Bytes src_offset, Bytes src_pitch,
                   Rank dst, const std::string& dst_name, Bytes dst_offset, Bytes dst_pitch) {
        text_ += ", \"src\": ";
        in_weights(src, src_name, src_offset, src_pitch);
        text_ += ", \"dst\": ";
        in_weights(dst, dst_name, dst_offset, dst_pitch);
    }

    std::FILE* out_;
    const Scene& scene_;
    const plan::Planner& planner_;
    std::vector<std::string> trainer_names_, rollout_names_, tensor_names_;
    std::string text_;
    bool is_first_ = true;
};

}  // namespace

void write_plan_json(std::FILE* out, const Scene& scene, const plan::Planner& planner,
                     std::uint64_t digest, Bytes bytes, PlanView view) {
    PlanWriter writer(out, scene, planner);
    writer.header(digest, bytes);
    if (view == PlanView::Merged)
        writer.merged();
    else
        writer.transfers();
    writer.padding();
}

void write_step_plan_json(std::FILE* out, const StepPlanInputs& in, const StepTotals& totals,
                          Bytes bytes) {
    PlanWriter writer(out, in.scene, in.planner);
    writer.header(totals.digest, bytes);
    fmt::print(out, " \"strategy\": \"{}\", \"moved_bytes\": {},\n", to_string(in.strategy),
               totals.sum().moved);
    fmt::print(out, " \"staging\": {{\"limit_bytes\": {}, \"most_bytes\": {}}},\n",
               in.staging_limit, *std::max_element(totals.staging.begin(), totals.staging.end()));
    writer.steps(in.stepper);
    writer.padding();
}

}  // namespace weightlift::app
