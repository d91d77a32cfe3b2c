// Going on where a killed run stopped: its PATH.part is set aside, what it finished is copied into
// a new PATH.part, and only then is the old file removed. A process killed in between leaves the
// old file, from which the next attempt starts again.
#pragma once

#include <optional>
#include <string>

#include "weightlift/record/h5_file.hpp"

namespace weightlift::record {

/// Whether a run to `path` has begun and not finished: a file of it lies there.
[[nodiscard]] bool has_unfinished(const std::string& path);

/// What a killed run to `path` left; absent where it recorded nothing. ResultsError where that run
/// is still alive.
[[nodiscard]] std::optional<RunRecord> read_unfinished(const std::string& path);

/// Makes way for a new PATH.part: what is there becomes PATH.part.old.
void set_aside(const std::string& path);

/// Records a case that has ended once more: info, samples, details and outcome.
void copy_case(Recorder& recorder, const CaseRecord& one);

/// Removes PATH.part.old: all of it that counts has been copied.
void drop_aside(const std::string& path);

}  // namespace weightlift::record
