// The cases of all files, those of the same name together.
#pragma once

#include <string>
#include <vector>

#include "weightlift/record/h5_file.hpp"

namespace weightlift::report {

struct Entry {
    std::size_t file = 0;    ///< index into the runs
    std::size_t number = 0;  ///< of the case in its file
    const record::RunRecord* run = nullptr;
    const record::CaseRecord* one = nullptr;
    record::Summary summary;
};

struct Group {
    std::string name;  ///< the key, and the options by which cases of this key differ within a file
    std::vector<Entry> entries;  ///< by file; never empty
};

struct Study {
    explicit Study(const std::vector<record::RunRecord>& files);

    const std::vector<record::RunRecord>& runs;  ///< must outlive the study
    std::vector<Group> groups;                   ///< in the order in which they first occur
};

/// "A" … "Z", then "27" …
[[nodiscard]] std::string file_label(std::size_t file);
/// "rank 17, n042, mlx5_3"; of a sweep, ranks are numbered within the case.
[[nodiscard]] std::string rank_label(const Entry& entry, std::size_t rank);
/// Of a sweep, whose other cases went on.
[[nodiscard]] inline bool has_failed(const Entry& entry) {
    return entry.one->outcome && entry.one->outcome->exit_code != 0;
}
/// No bandwidth is shown as valid for a case that failed or has wrong data.
[[nodiscard]] inline bool is_right(const Entry& entry) {
    return entry.summary.wrong == 0 && !has_failed(entry);
}

}  // namespace weightlift::report
