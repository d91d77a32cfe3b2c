#include "part_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"

#include "h5_call.hpp"

namespace weightlift::record::h5 {
namespace {

[[noreturn]] void fail_system(const std::string& file, const char* what, int error) {
    throw ResultsError(
        fmt::format("results file {}: cannot {}: {}", file, what, std::strerror(error)));
}

std::string folder_of(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    [[nodiscard]] int get() const { return value_; }

private:
    int value_;
};

void sync(const std::string& file, int flags) {
    const Descriptor descriptor(::open(file.c_str(), flags | O_CLOEXEC));
    if (descriptor.get() < 0) fail_system(file, "open to sync", errno);
    // EINVAL: a file system that cannot sync folders, and does not need to.
    if (::fsync(descriptor.get()) != 0 && errno != EINVAL) fail_system(file, "sync", errno);
}

struct flock whole_file(short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return lock;
}

/// 0, or the error number; EEXIST where `to` exists.
int rename_without_replacing(const std::string& from, const std::string& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
    if (::link(from.c_str(), to.c_str()) != 0) return errno;
    return ::unlink(from.c_str()) == 0 ? 0 : errno;
}

}  // namespace

std::string part_of(const std::string& path) { return path + ".part"; }
std::string staging_of(const std::string& path) {
    return part_of(path) + std::string(kStagingSuffix);
}

void reserve_part(const std::string& path) {
    const std::string part = part_of(path);
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder_of(path), ignored))
        throw ResultsError(
            fmt::format("results file {}: folder {} does not exist", path, folder_of(path)));
    if (::access(path.c_str(), F_OK) == 0)
        throw ResultsError(fmt::format("results file {} already exists", path));
    const Descriptor descriptor(
        ::open(part.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
    if (descriptor.get() >= 0) return;
    if (errno == EEXIST)
        throw ResultsError(fmt::format(
            "results file {} already exists: a run is writing it, or one that was killed left it",
            part));
    fail_system(part, "create", errno);
}

void copy_part_to_staging(const std::string& path) {
    std::error_code error;
    std::filesystem::copy_file(part_of(path), staging_of(path),
                               std::filesystem::copy_options::overwrite_existing, error);
    if (error) fail_system(part_of(path), "copy", error.value());
}

void replace_part(const std::string& path) {
    sync(staging_of(path), O_RDONLY);
    if (::rename(staging_of(path).c_str(), part_of(path).c_str()) != 0)
        fail_system(part_of(path), "replace", errno);
}

void publish_part(const std::string& path) {
    const int error = rename_without_replacing(part_of(path), path);
    if (error == EEXIST)
        throw ResultsError(
            fmt::format("results file {} appeared during the run; the results stay in {}", path,
                        part_of(path)));
    if (error != 0) fail_system(part_of(path), fmt::format("rename to {}", path).c_str(), error);
    sync(folder_of(path), O_RDONLY | O_DIRECTORY);
}

void remove_staging(const std::string& path) noexcept {
    std::error_code ignored;
    std::filesystem::remove(staging_of(path), ignored);
}

void release_part(const std::string& path) noexcept {
    remove_staging(path);
    std::error_code ignored;
    std::filesystem::remove(part_of(path), ignored);
}

WriterLock::WriterLock(const std::string& file)
    : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    // Of the open file description, not of the process: HDF5 closing the same file keeps it.
    struct flock lock = whole_file(F_RDLCK);
    if (descriptor_ >= 0) ::fcntl(descriptor_, F_OFD_SETLK, &lock);
}

WriterLock::~WriterLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Writer writer_of(const std::string& file) {
    const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    struct flock lock = whole_file(F_WRLCK);
    if (descriptor.get() < 0 || ::fcntl(descriptor.get(), F_OFD_GETLK, &lock) != 0)
        return Writer::Unknown;
    return lock.l_type == F_UNLCK ? Writer::Gone : Writer::Alive;
}

}  // namespace weightlift::record::h5
