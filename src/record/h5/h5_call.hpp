// The HDF5 C library, one checked function per kind of call: each throws ResultsError naming call,
// file, object and HDF5's root cause. All HDF5 errors are decided here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hdf5.h>

namespace weightlift::record::h5 {

/// Owns one HDF5 identifier. Closing by the destructor ignores errors; where they matter (files
/// being written) close_file reports them first.
class Handle {
public:
    using Close = herr_t (*)(hid_t);

    Handle() = default;
    Handle(hid_t id, Close close) noexcept : id_(id), close_(close) {}
    Handle(Handle&& other) noexcept
        : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
    Handle& operator=(Handle&& other) noexcept {
        if (this != &other) {
            reset();
            id_ = std::exchange(other.id_, H5I_INVALID_HID);
            close_ = other.close_;
        }
        return *this;
    }
    ~Handle() { reset(); }

    void reset() noexcept {
        if (id_ >= 0) close_(id_);
        id_ = H5I_INVALID_HID;
    }
    [[nodiscard]] hid_t get() const noexcept { return id_; }
    [[nodiscard]] hid_t release() noexcept { return std::exchange(id_, H5I_INVALID_HID); }
    explicit operator bool() const noexcept { return id_ >= 0; }

private:
    hid_t id_ = H5I_INVALID_HID;
    Close close_ = nullptr;
};

/// The staging copy of a results file (part_file.hpp); errors name the file it will become.
inline constexpr std::string_view kStagingSuffix = ".next";

/// Opens the library with its own error printing and its exit handler off; call it first.
void start_library();

/// Throws ResultsError for the call that just failed on `name` of the object at `location`.
[[noreturn]] void fail(const char* call, hid_t location, std::string_view name);
[[noreturn]] void fail_on_file(const char* call, std::string_view path);
/// Throws ResultsError: no call failed, but what the file holds at `object` is not schema 1.
[[noreturn]] void malformed(hid_t object, std::string_view reason);

inline hid_t check_id(hid_t id, const char* call, hid_t location, std::string_view name) {
    if (id < 0) fail(call, location, name);
    return id;
}
inline void check(herr_t status, const char* call, hid_t location, std::string_view name = {}) {
    if (status < 0) fail(call, location, name);
}

// Files
enum class Access { Read, SwmrRead, Write, SwmrWrite };
[[nodiscard]] Handle create_file(const std::string& path);  ///< overwrites
[[nodiscard]] Handle open_file(const std::string& path, Access access);
[[nodiscard]] bool is_hdf5(const std::string& path);
void close_file(Handle& file);

// Groups and links
inline Handle create_group(hid_t parent, const char* name) {
    const hid_t id = H5Gcreate2(parent, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return {check_id(id, "H5Gcreate", parent, name), H5Gclose};
}
inline Handle open_group(hid_t parent, const char* name) {
    return {check_id(H5Gopen2(parent, name, H5P_DEFAULT), "H5Gopen", parent, name), H5Gclose};
}
inline bool has_link(hid_t parent, const char* name) {
    const htri_t found = H5Lexists(parent, name, H5P_DEFAULT);
    check(found, "H5Lexists", parent, name);
    return found > 0;
}
inline void delete_link(hid_t parent, const char* name) {
    check(H5Ldelete(parent, name, H5P_DEFAULT), "H5Ldelete", parent, name);
}

// Datasets
inline Handle open_dataset(hid_t parent, const char* name) {
    return {check_id(H5Dopen2(parent, name, H5P_DEFAULT), "H5Dopen", parent, name), H5Dclose};
}
/// Chunked, checksummed (fletcher32), first axis extendable. `fill` has the memory type `type`.
[[nodiscard]] Handle create_dataset(hid_t parent, const char* name, hid_t file_type, hid_t type,
                                    const std::vector<hsize_t>& extent,
                                    const std::vector<hsize_t>& chunk, const void* fill);
[[nodiscard]] std::vector<hsize_t> extent_of(hid_t dataset);
[[nodiscard]] Handle type_of(hid_t dataset);
/// ResultsError where rows * row_bytes cannot come from a file of this size: a damaged extent must
/// not become an allocation. Checksummed chunks are never smaller than what they hold.
void expect_within_file(hid_t dataset, hsize_t rows, hsize_t row_bytes);
/// Rows [first, first + count) of the first axis, all of the others.
void write_rows(hid_t dataset, hid_t type, hsize_t first, hsize_t count, const void* rows);
void read_rows(hid_t dataset, hid_t type, hsize_t first, hsize_t count, void* rows);
inline void extend(hid_t dataset, const std::vector<hsize_t>& extent) {
    check(H5Dset_extent(dataset, extent.data()), "H5Dset_extent", dataset);
}
inline void flush(hid_t dataset) { check(H5Dflush(dataset), "H5Dflush", dataset); }

// Types
/// Fixed-length UTF-8, padded with zero bytes; `length` at least 1.
[[nodiscard]] Handle text_type(std::size_t length);
inline Handle compound_type(std::size_t bytes) {
    return {check_id(H5Tcreate(H5T_COMPOUND, bytes), "H5Tcreate", H5I_INVALID_HID, {}), H5Tclose};
}
inline void add_member(hid_t compound, const char* name, std::size_t offset, hid_t type) {
    check(H5Tinsert(compound, name, offset, type), "H5Tinsert", H5I_INVALID_HID, name);
}

// Attributes; writing replaces.
void write_attribute(hid_t object, const char* name, hid_t file_type, hid_t type, hid_t space,
                     const void* value);
void write_text(hid_t object, const char* name, std::string_view text);
void write_integer(hid_t object, const char* name, std::int64_t value);
[[nodiscard]] std::string read_text(hid_t object, const char* name);
[[nodiscard]] std::int64_t read_integer(hid_t object, const char* name);
[[nodiscard]] bool has_attribute(hid_t object, const char* name);
/// ResultsError where the attribute `units` says something else.
void expect_units(hid_t dataset, std::string_view units);

/// At most `limit` bytes of UTF-8: a longer text ends with a mark that says how long it was.
[[nodiscard]] std::string bounded_text(std::string_view text, std::size_t limit);
/// What one string of a results file may hold; object headers end at 64 KiB.
inline constexpr std::size_t kTextLimit = 60'000;

}  // namespace weightlift::record::h5
