#include "catalog.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/base/error.hpp"

#include "text.hpp"

namespace weightlift::app {

namespace {

struct Entry {
    std::string_view name, text;
};

#include "catalog_data.inc"

std::string lookup(const std::vector<Entry>& entries, const char* kind, const std::string& wanted) {
    for (const Entry& entry : entries)
        if (entry.name == wanted) return std::string(entry.text);
    std::error_code ignored;
    if (std::filesystem::is_directory(wanted, ignored)) return read_text(wanted + "/config.json");
    if (std::filesystem::exists(wanted, ignored)) return read_text(wanted);
    std::vector<std::string_view> names;
    for (const Entry& entry : entries) names.push_back(entry.name);
    throw ConfigError(
        fmt::format("--{} {}: there is no such file, nor a shipped {} of that name{} ({})", kind,
                    wanted, kind, suggestion(wanted, names), fmt::join(names, ", ")));
}

}  // namespace

std::string model_text(const std::string& name) { return lookup(kModels, "model", name); }
std::string cluster_text(const std::string& name) { return lookup(kClusters, "cluster", name); }

std::string model_name(const std::string& name_or_path) {
    std::filesystem::path path(name_or_path);
    if (path.filename().empty()) path = path.parent_path();
    if (path.filename() == "config.json" && path.has_parent_path())
        return path.parent_path().filename().string();
    return path.extension() == ".json" ? path.stem().string() : path.filename().string();
}

std::string read_text(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error))
        throw ConfigError(fmt::format("cannot read {}: it is a folder", path));
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    // An empty file fails `text`, not `file`: what it lacks, its parser says better.
    if (file) text << file.rdbuf();
    if (!file)
        throw ConfigError(fmt::format("cannot read {}: {}", path,
                                      errno != 0 ? std::strerror(errno) : "reading failed"));
    return std::move(text).str();
}

}  // namespace weightlift::app
