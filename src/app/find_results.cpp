#include "find_results.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <glob.h>

#include "weightlift/base/error.hpp"

namespace weightlift::app {

namespace {

namespace fs = std::filesystem;

void expand_folder(const std::string& folder, Unfinished unfinished,
                   std::vector<std::string>& files) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        const std::string path = at->path().string();
        const bool is_unfinished = path.ends_with(".h5.part");
        if (path.ends_with(".h5") || (is_unfinished && unfinished == Unfinished::Take))
            files.push_back(path);
        else if (is_unfinished)
            fmt::print(stderr, "weightlift: note: left out {}, whose run is not finished\n", path);
    }
    if (error)
        throw ResultsError(fmt::format("cannot read the folder {}: {}", folder, error.message()));
    if (files.empty()) throw ResultsError(fmt::format("folder {} holds no .h5 file", folder));
}

void expand_glob(const std::string& pattern, std::vector<std::string>& files) {
    glob_t found{};
    const int status = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
    for (std::size_t i = 0; status == 0 && i < found.gl_pathc; ++i)
        files.emplace_back(found.gl_pathv[i]);
    globfree(&found);
    if (status == GLOB_NOMATCH) throw ResultsError(fmt::format("no file matches {}", pattern));
    if (status != 0) throw ResultsError(fmt::format("cannot read a folder of {}", pattern));
}

}  // namespace

std::vector<std::string> find_results(const std::string& given, Unfinished unfinished) {
    std::vector<std::string> files;
    std::error_code ignored;
    if (fs::is_directory(given, ignored))
        expand_folder(given, unfinished, files);
    else if (!fs::exists(given, ignored) && given.find_first_of("*?[") != std::string::npos)
        expand_glob(given, files);
    else
        files.push_back(given);
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace weightlift::app
