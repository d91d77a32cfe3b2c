// The files of a run that is being recorded to PATH, all in one folder, and the steps between them:
//
//   PATH.part       created exclusively; only appended to (SWMR), or replaced whole
//   PATH.part.next  a copy being changed; becomes PATH.part by rename
//   PATH            PATH.part, renamed at the end, never over an existing file
//
// so that a process killed at any moment leaves a PATH.part that can be read.
#pragma once

#include <string>
#include <utility>

namespace weightlift::record::h5 {

[[nodiscard]] std::string part_of(const std::string& path);
[[nodiscard]] std::string staging_of(const std::string& path);

/// Creates an empty PATH.part. ResultsError where it or PATH exists, or the folder does not.
void reserve_part(const std::string& path);
void copy_part_to_staging(const std::string& path);
/// Syncs PATH.part.next to disk and gives it the name PATH.part.
void replace_part(const std::string& path);
/// Gives PATH.part the name PATH unless that is taken (ResultsError; PATH.part stays), and syncs
/// the folder.
void publish_part(const std::string& path);
void remove_staging(const std::string& path) noexcept;
/// Undoes reserve_part of a run that could not begin.
void release_part(const std::string& path) noexcept;

/// A shared lock on the open file, held while its writer lives; it hinders no reader. Where the
/// file system has no locks it is not held.
class WriterLock {
public:
    WriterLock() = default;
    explicit WriterLock(const std::string& file);
    WriterLock(WriterLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    WriterLock& operator=(WriterLock&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~WriterLock();

private:
    int descriptor_ = -1;
};

enum class Writer { Alive, Gone, Unknown };
[[nodiscard]] Writer writer_of(const std::string& file);

}  // namespace weightlift::record::h5
