// What doctor says of one thing it looked at, and how the same words of many ranks become one line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightlift::app::doctor {

enum class Verdict { Ok, Warn, Fail, Skip };
[[nodiscard]] std::string_view to_string(Verdict verdict);  ///< "OK", "WARN", "FAIL", "SKIP"

struct Finding {
    std::string check;  ///< "locked memory"
    Verdict verdict = Verdict::Ok;
    std::string evidence;   ///< what was seen, as it was seen
    std::string remedy;     ///< empty where nothing is to be done
    bool is_joint = false;  ///< said by one rank of all
    friend bool operator==(const Finding&, const Finding&) = default;
};

/// What must be alike everywhere, and what follows where it is not.
struct Trait {
    std::string name, value;
    friend bool operator==(const Trait&, const Trait&) = default;
};

struct RankReport {
    std::string host;
    std::vector<Finding> findings;
    std::vector<Trait> traits;
    friend bool operator==(const RankReport&, const RankReport&) = default;
};
/// For the way to rank 0.
[[nodiscard]] std::string to_json(const RankReport& report);
[[nodiscard]] RankReport rank_report_from_json(std::string_view text);

/// A finding and the ranks, ascending, that have it.
struct Folded {
    Finding finding;
    std::vector<int> ranks;
};
/// Pure. Equal findings become one; checks keep the order of their first appearance, and within
/// one the worst verdict comes last.
[[nodiscard]] std::vector<Folded> fold(std::span<const RankReport> reports);

/// Pure. One finding for all traits that are alike, one for each that is not.
[[nodiscard]] std::vector<Folded> compare_traits(std::span<const RankReport> reports);

/// "64 KiB", "8 MiB", "23.5 GiB": limits and sizes as systems set them.
[[nodiscard]] std::string show_binary(std::uint64_t bytes);

[[nodiscard]] Verdict worst(std::span<const Folded> findings);

/// "ranks 8-15 on n042"; empty for all of them.
[[nodiscard]] std::string where(std::span<const int> ranks, std::span<const RankReport> reports);

/// "weightlift doctor: 16 ranks on 2 hosts", or the one host's name.
[[nodiscard]] std::string title(std::span<const RankReport> reports);
/// One line for each, its remedy below; evidence wrapped.
[[nodiscard]] std::string table(std::span<const Folded> findings,
                                std::span<const RankReport> reports);
/// "FAIL: 9 OK, 1 WARN, 1 FAIL, 4 SKIP".
[[nodiscard]] std::string footer(std::span<const Folded> findings);
/// Schema weightlift-doctor/1.
[[nodiscard]] std::string report_json(std::span<const Folded> findings,
                                      std::span<const RankReport> reports);

}  // namespace weightlift::app::doctor
