#include "examination.hpp"

#include "weightlift/mpi/communicator.hpp"

#include "checks.hpp"

namespace weightlift::app::doctor {
namespace {

/// Every rank's report on rank 0.
std::vector<RankReport> collect(const session::Agreement& agreement, const RankReport& mine) {
    const std::string text = to_json(mine);
    std::vector<RankReport> reports;
    const mpi::Deadline deadline(agreement.timeout());
    for (const auto& bytes : agreement.world().gather_strings(
             std::as_bytes(std::span(text.data(), text.size())), deadline, "doctor"))
        reports.push_back(rank_report_from_json(
            std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    return reports;
}

void append(std::vector<Folded>& findings, std::vector<Folded> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
}

}  // namespace

Examination examine_alone(const Asked& asked) {
    Examination out;
    out.reports.push_back(check_rank(gather_facts(asked, transport::list_nics()), asked));
    out.reports[0].findings.push_back(check_output(gather_output(asked.output)));
    out.findings = fold(out.reports);
    out.verdict = worst(out.findings);
    return out;
}

Examination examine(const Ward& ward, const Asked& asked,
                    const std::function<void(const Examination&)>& before_writes) {
    const session::Agreement& agreement = ward.agreement;
    const auto& world = agreement.world();
    Examination out;
    RankReport mine;
    std::vector<std::string> rails;
    agreement.run("doctor", [&](const mpi::Deadline&) {
        Facts facts = gather_facts(asked, transport::list_nics());
        facts.launched = mpi::launcher_world_size();
        facts.world_size = world.size();
        mine = check_rank(facts, asked);
        rails = usable_rails(facts, asked);
        if (world.rank() == 0) mine.findings.push_back(check_output(gather_output(asked.output)));
    });
    out.reports = collect(agreement, mine);
    out.findings = fold(out.reports);
    if (world.rank() == 0 && world.size() > 1) append(out.findings, compare_traits(out.reports));
    if (world.rank() == 0) before_writes(out);

    if (world.size() > 1) {
        mine.findings = check_writes(ward, rails, asked);
        append(out.findings, fold(collect(agreement, mine)));
    }
    const mpi::Deadline deadline(agreement.timeout());
    const int code = world.max(world.rank() == 0 ? static_cast<int>(worst(out.findings)) : 0,
                               deadline, "doctor");
    out.verdict = static_cast<Verdict>(code);
    return out;
}

}  // namespace weightlift::app::doctor
