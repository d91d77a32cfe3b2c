// Which results files a command line names.
#pragma once

#include <string>
#include <vector>

namespace weightlift::app {

/// Files of a folder whose run was killed or still goes on (.h5.part).
enum class Unfinished { LeaveOut, Take };

/// A file, all results files of a folder, or what a pattern (*?[) matches, by name. Files that are
/// left out are noted on stderr. ResultsError for a folder or pattern without any file; a file that
/// is not there is for its reader to miss.
[[nodiscard]] std::vector<std::string> find_results(const std::string& given,
                                                    Unfinished unfinished);

}  // namespace weightlift::app
