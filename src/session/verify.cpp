// Checking what the rollouts hold. The trainers' memory is overwritten first: what is checked has
// moved.
#include <algorithm>

#include <fmt/format.h>

#include "state.hpp"

namespace weightlift::session {

namespace {

/// What one rollout found wrong, as a sentence. Empty: nothing.
struct Finding {
    std::string text;
    std::uint64_t count = 0;
};

Finding locate(const WeightStore& store, const model::ModelSpec& model,
               const std::vector<memory::Block>& blocks, const std::vector<std::size_t>& which,
               std::uint64_t version) {
    std::vector<memory::Block> chosen;
    for (const std::size_t b : which) chosen.push_back(blocks[b]);
    const auto found = store.arena().compare(chosen, version);
    if (!found) return {};
    const auto ref = store.block_pieces()[which[found->block]];
    const auto& parameter = store.layout().parameter(ref.parameter);
    const auto& tensor = model.tensor(parameter.pieces[ref.piece].tensor);
    const int digits = static_cast<int>(2 * element_bytes(parameter.dtype));
    const std::string index = tensor.dimensions == 1
                                  ? fmt::format("[{}]", found->column)
                                  : fmt::format("[{}, {}]", found->row, found->column);
    return {fmt::format("{}{} in parameter {}: expected 0x{:0{}x}, found 0x{:0{}x}{}; {} wrong "
                        "elements on this rank",
                        tensor.name, index, parameter.name, found->expected, digits, found->actual,
                        digits, found->actual == ~0U >> (32 - 4 * digits) ? " (never written)" : "",
                        found->count),
            found->count};
}

}  // namespace

Verification Session::verify(std::uint64_t version) {
    State& s = *state_;
    WEIGHTLIFT_ENSURES(s.table != nullptr);
    const mpi::Communicator& world = s.world();
    memory::Arena& arena = s.store.arena();
    const auto& blocks = s.store.blocks();

    s.agreement.run("overwrite", [&](const mpi::Deadline&) {
        if (s.is_trainer) arena.poison(blocks);
        const auto& flip = s.options.inject.flip;
        if (flip && flip->first == s.rank) {
            if (flip->second >= arena.bytes())
                throw ConfigError(
                    fmt::format("--inject flip: byte {} is beyond the {} bytes of rank {}",
                                flip->second, arena.bytes(), s.rank));
            arena.flip(flip->second);
        }
    });

    std::vector<std::uint64_t> slots(s.table->slots(), 0);
    Finding finding;
    const auto begin = mpi::Clock::now();
    std::uint64_t took_ns = 0;
    s.agreement.run("verify", [&](const mpi::Deadline&) {
        if (s.is_trainer) {
            s.table->add(s.store, s.trainer_sums, slots);
            return;
        }
        std::vector<std::uint64_t> sums(blocks.size(), 0);
        arena.fingerprint(blocks, sums);
        s.table->add(s.store, sums, slots);
        // Elements outside of whole families, or all of them, are compared one by one.
        std::vector<std::size_t> which = s.table->uncovered(s.store);
        if (s.options.verify == Verify::Full) {
            which.resize(blocks.size());
            for (std::size_t b = 0; b < which.size(); ++b) which[b] = b;
            if (const auto at = arena.first_nonzero(s.store.padding())) {
                finding = {
                    fmt::format("padding of parameter {} is not zero at byte {} of the region",
                                s.store.layout().parameter(s.store.parameter_at(*at)).name, *at),
                    1};
            }
        }
        if (finding.text.empty() && !which.empty())
            finding = locate(s.store, s.inputs.model, blocks, which, version);
        took_ns = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(mpi::Clock::now() - begin)
                .count());
    });

    Verification result;
    const mpi::Deadline deadline(s.options.timeout);
    world.reduce_sum_to_root(slots, deadline, "verify");
    result.rank_ns = world.gather(took_ns, deadline, "verify");
    bool is_right = true;
    if (s.rank == 0) {
        result.fingerprints = s.table->compare(slots);
        is_right = std::all_of(result.fingerprints.begin(), result.fingerprints.end(),
                               [](const auto& row) { return row.equal; });
    }
    is_right = is_right && finding.text.empty();
    result.is_right = world.min(is_right ? 1 : 0, deadline, "verify") == 1;
    if (result.is_right) return result;

    // A fingerprint says which tensor; a comparison says which element.
    s.agreement.run("locate mismatch", [&](const mpi::Deadline&) {
        if (s.is_trainer || !finding.text.empty()) return;
        std::vector<std::size_t> all(blocks.size());
        for (std::size_t b = 0; b < all.size(); ++b) all[b] = b;
        finding = locate(s.store, s.inputs.model, blocks, all, version);
    });
    result.wrong_elements = world.sum(finding.count, deadline, "locate mismatch");
    const auto texts =
        world.gather_strings(std::as_bytes(std::span(finding.text.data(), finding.text.size())),
                             deadline, "locate mismatch");
    for (std::size_t r = 0; r < texts.size() && result.mismatch.empty(); ++r) {
        if (texts[r].empty()) continue;
        result.mismatch = fmt::format(
            "{}: {}", s.agreement.label(static_cast<int>(r)),
            std::string(reinterpret_cast<const char*>(texts[r].data()), texts[r].size()));
    }
    if (s.rank == 0 && result.mismatch.empty())
        result.mismatch =
            "fingerprints differ, but no rollout holds a wrong element: the trainers "
            "disagree among themselves";
    return result;
}

}  // namespace weightlift::session
