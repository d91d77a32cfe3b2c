#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "weightlift/memory/arena.hpp"

namespace weightlift::memory {
namespace {

constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

/// First number of a file; nothing where there is no file or it says "max".
std::optional<Bytes> number_in(const std::string& path) {
    std::ifstream file(path);
    Bytes value = 0;
    if (file >> value) return value;
    return std::nullopt;
}

/// Number after `key` in a file of "key value" lines.
std::optional<Bytes> number_after(const std::string& path, const std::string& key) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string word;
        Bytes value = 0;
        if (words >> word >> value && word == key) return value;
    }
    return std::nullopt;
}

/// Whether a comma-separated list has the word.
bool lists(const std::string& list, const std::string& word) {
    std::istringstream items(list);
    for (std::string item; std::getline(items, item, ',');)
        if (item == word) return true;
    return false;
}

/// A cgroup hierarchy that limits memory: where it is mounted, which of its folders is mounted
/// there, and the names of its files.
struct Hierarchy {
    std::string mount;
    std::string root;
    bool v2 = false;
};

std::vector<Hierarchy> hierarchies(const std::string& root) {
    // ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAGS] - TYPE SOURCE SUPER_OPTIONS
    std::vector<Hierarchy> found;
    std::ifstream file(root + "/proc/self/mountinfo");
    std::string line;
    while (std::getline(file, line)) {
        const auto dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        std::istringstream left(line.substr(0, dash));
        std::istringstream right(line.substr(dash + 3));
        std::string skip, folder, mount, type, source, options;
        left >> skip >> skip >> skip >> folder >> mount;
        right >> type >> source >> options;
        if (type == "cgroup2" || (type == "cgroup" && lists(options, "memory")))
            found.push_back({root + mount, folder, type == "cgroup2"});
    }
    return found;
}

/// This process's folder in a hierarchy, from lines ID:CONTROLLERS:PATH.
std::optional<std::string> own_folder(const std::string& root, bool v2) {
    std::ifstream file(root + "/proc/self/cgroup");
    std::string line;
    while (std::getline(file, line)) {
        const auto first = line.find(':');
        const auto second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (v2 ? controllers.empty() : lists(controllers, "memory")) return line.substr(second + 1);
    }
    return std::nullopt;
}

/// Limit minus use of one folder. Inactive page cache counts as free: the kernel drops it first.
Bytes room(const std::string& folder, bool v2) {
    const auto limit = number_in(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (!limit) return kNoLimit;
    Bytes used =
        number_in(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
    const char* const cache = v2 ? "inactive_file" : "total_inactive_file";
    used -= std::min(used, number_after(folder + "/memory.stat", cache).value_or(0));
    return *limit - std::min(*limit, used);
}

}  // namespace

Bytes available_host_memory(const std::string& root) {
    Bytes least = kNoLimit;
    if (const auto kib = number_after(root + "/proc/meminfo", "MemAvailable:")) least = *kib * KiB;
    for (const Hierarchy& hierarchy : hierarchies(root)) {
        auto folder = own_folder(root, hierarchy.v2);
        if (!folder) continue;
        // In a container the mount may show only a part of the tree.
        if (hierarchy.root != "/" && folder->starts_with(hierarchy.root))
            folder->erase(0, hierarchy.root.size());
        for (std::string at = *folder == "/" ? "" : *folder;; at.erase(at.rfind('/'))) {
            least = std::min(least, room(hierarchy.mount + at, hierarchy.v2));
            if (at.find('/') == std::string::npos) break;
        }
    }
    return least;
}

}  // namespace weightlift::memory
