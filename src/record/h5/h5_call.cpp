#include "h5_call.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "weightlift/base/bytes.hpp"
#include "weightlift/base/error.hpp"

namespace weightlift::record::h5 {
namespace {

herr_t keep_first(unsigned n, const H5E_error2_t* error, void* text) noexcept {
    if (n == 0 && error->desc != nullptr) *static_cast<const char**>(text) = error->desc;
    return 0;
}

/// The innermost entry of HDF5's error stack. Where a system call failed, HDF5 adds buffer
/// addresses and offsets; only the system's own words are kept.
std::string root_cause() {
    const char* text = nullptr;
    const hid_t stack = H5Eget_current_stack();
    H5Ewalk2(stack, H5E_WALK_UPWARD, keep_first, &text);
    std::string cause = text != nullptr ? text : "no reason given";
    H5Eclose_stack(stack);
    constexpr std::string_view kSystemText = "error message = '";
    if (const auto begin = cause.find(kSystemText); begin != std::string::npos) {
        cause.erase(0, begin + kSystemText.size());
        cause.erase(std::min(cause.find('\''), cause.size()));
    }
    return cause;
}

std::string without_staging_suffix(std::string_view path) {
    if (path.ends_with(kStagingSuffix)) path.remove_suffix(kStagingSuffix.size());
    return std::string(path);
}

using NameOf = ssize_t (*)(hid_t, char*, std::size_t);
std::string name_of(hid_t object, NameOf get) {
    char text[4096] = {};
    return object >= 0 && get(object, text, sizeof text) > 0 ? text : "";
}

Handle file_access() {
    Handle list{check_id(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", H5I_INVALID_HID, {}), H5Pclose};
#if H5_VERSION_GE(1, 10, 2)
    const herr_t bounds = H5Pset_libver_bounds(list.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
#else
    const herr_t bounds = H5Pset_libver_bounds(list.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
#endif
    check(bounds, "H5Pset_libver_bounds", H5I_INVALID_HID);
    check(H5Pset_fclose_degree(list.get(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree",
          H5I_INVALID_HID);
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
    // Not every file system has locks. A second writer is kept out by exclusive creation.
    check(H5Pset_file_locking(list.get(), false, true), "H5Pset_file_locking", H5I_INVALID_HID);
#endif
    // A reader that meets a half-written block tries again after 1, 2, 4, … ns: 1 ms in all. With
    // HDF5's 100 attempts, one that was left so by a writer long gone would be waited for for ever.
    check(H5Pset_metadata_read_attempts(list.get(), 20), "H5Pset_metadata_read_attempts",
          H5I_INVALID_HID);
    return list;
}

using Transfer = herr_t (*)(hid_t dataset, hid_t type, hid_t memory, hid_t file, void* rows);
void transfer_rows(hid_t dataset, hid_t type, hsize_t first, hsize_t count, void* rows,
                   Transfer transfer, const char* call) {
    std::vector<hsize_t> extent = extent_of(dataset);
    std::vector<hsize_t> start(extent.size(), 0);
    if (extent.empty() || count == 0) return;
    start[0] = first;
    extent[0] = count;
    const Handle file{check_id(H5Dget_space(dataset), "H5Dget_space", dataset, {}), H5Sclose};
    const Handle memory{
        check_id(H5Screate_simple(narrow<int>(extent.size(), "rank"), extent.data(), nullptr),
                 "H5Screate_simple", dataset, {}),
        H5Sclose};
    check(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                              nullptr),
          "H5Sselect_hyperslab", dataset);
    check(transfer(dataset, type, memory.get(), file.get(), rows), call, dataset);
}

/// H5Fclose marks a file as well closed even when the disk had no room for the end of it, and then
/// nobody can open it. One that cannot be flushed is left as a killed process leaves it.
herr_t flush_and_close(hid_t file) noexcept {
    return H5Fflush(file, H5F_SCOPE_GLOBAL) < 0 ? -1 : H5Fclose(file);
}

}  // namespace

void start_library() {
    // The exit handler would close what flush_and_close left open.
    static const bool started = [] {
        H5dont_atexit();
        return H5open() >= 0;
    }();
    if (!started) throw ResultsError("the HDF5 library does not start");
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

void fail(const char* call, hid_t location, std::string_view name) {
    const std::string cause = root_cause();
    const std::string file = without_staging_suffix(name_of(location, H5Fget_name));
    std::string object = name_of(location, H5Iget_name);
    if (!name.empty() && !object.empty() && !object.ends_with('/')) object += ' ';
    object += name;
    throw ResultsError(fmt::format("results file{}{}: {}{}{} failed: {}", file.empty() ? "" : " ",
                                   file, call, object.empty() ? "" : " of ", object, cause));
}

void fail_on_file(const char* call, std::string_view path) {
    const std::string cause = root_cause();
    throw ResultsError(
        fmt::format("results file {}: {} failed: {}", without_staging_suffix(path), call, cause));
}

void malformed(hid_t object, std::string_view reason) {
    throw ResultsError(fmt::format("results file {}: {} {}",
                                   without_staging_suffix(name_of(object, H5Fget_name)),
                                   name_of(object, H5Iget_name), reason));
}

Handle create_file(const std::string& path) {
    const Handle access = file_access();
    const Handle creation{check_id(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate", H5I_INVALID_HID, {}),
                          H5Pclose};
#if H5_VERSION_GE(1, 10, 1)
    // Metadata blocks that do not cross a 4 KiB page are written whole or not at all by a process
    // that is killed: the kernel looks at signals between pages.
    check(H5Pset_file_space_strategy(creation.get(), H5F_FSPACE_STRATEGY_PAGE, false, 1),
          "H5Pset_file_space_strategy", H5I_INVALID_HID);
    check(H5Pset_file_space_page_size(creation.get(), 4096), "H5Pset_file_space_page_size",
          H5I_INVALID_HID);
#endif
    const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get());
    if (id < 0) fail_on_file("H5Fcreate", path);
    return {id, flush_and_close};
}

Handle open_file(const std::string& path, Access access) {
    const Handle list = file_access();
    unsigned flags = 0;
    switch (access) {
        case Access::Read: flags = H5F_ACC_RDONLY; break;
        case Access::SwmrRead: flags = H5F_ACC_RDONLY | H5F_ACC_SWMR_READ; break;
        case Access::Write: flags = H5F_ACC_RDWR; break;
        case Access::SwmrWrite: flags = H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE; break;
    }
    const hid_t id = H5Fopen(path.c_str(), flags, list.get());
    if (id < 0) fail_on_file("H5Fopen", path);
    const bool reads = access == Access::Read || access == Access::SwmrRead;
    return {id, reads ? H5Fclose : flush_and_close};
}

bool is_hdf5(const std::string& path) { return H5Fis_hdf5(path.c_str()) > 0; }

void close_file(Handle& file) {
    if (!file) return;
    const std::string path = name_of(file.get(), H5Fget_name);
    if (flush_and_close(file.release()) < 0) fail_on_file("H5Fclose", path);
}

Handle create_dataset(hid_t parent, const char* name, hid_t file_type, hid_t type,
                      const std::vector<hsize_t>& extent, const std::vector<hsize_t>& chunk,
                      const void* fill) {
    std::vector<hsize_t> most = extent;
    most.at(0) = H5S_UNLIMITED;
    const int axes = narrow<int>(extent.size(), "rank");
    const Handle space{check_id(H5Screate_simple(axes, extent.data(), most.data()),
                                "H5Screate_simple", parent, name),
                       H5Sclose};
    const Handle creation{check_id(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", parent, name),
                          H5Pclose};
    check(H5Pset_chunk(creation.get(), axes, chunk.data()), "H5Pset_chunk", parent, name);
    check(H5Pset_fletcher32(creation.get()), "H5Pset_fletcher32", parent, name);
    if (fill != nullptr)
        check(H5Pset_fill_value(creation.get(), type, fill), "H5Pset_fill_value", parent, name);
    const hid_t id =
        H5Dcreate2(parent, name, file_type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT);
    return {check_id(id, "H5Dcreate", parent, name), H5Dclose};
}

std::vector<hsize_t> extent_of(hid_t dataset) {
    const Handle space{check_id(H5Dget_space(dataset), "H5Dget_space", dataset, {}), H5Sclose};
    const int axes = H5Sget_simple_extent_ndims(space.get());
    check(axes, "H5Sget_simple_extent_ndims", dataset);
    std::vector<hsize_t> extent(static_cast<std::size_t>(axes));
    check(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr),
          "H5Sget_simple_extent_dims", dataset);
    return extent;
}

Handle type_of(hid_t dataset) {
    return {check_id(H5Dget_type(dataset), "H5Dget_type", dataset, {}), H5Tclose};
}

void expect_within_file(hid_t dataset, hsize_t rows, hsize_t row_bytes) {
    const Handle file{check_id(H5Iget_file_id(dataset), "H5Iget_file_id", dataset, {}), H5Fclose};
    hsize_t file_bytes = 0;
    check(H5Fget_filesize(file.get(), &file_bytes), "H5Fget_filesize", dataset);
    if (row_bytes != 0 && rows > file_bytes / row_bytes)
        malformed(dataset, fmt::format("claims {} rows of {} bytes, more than the file's {} bytes",
                                       rows, row_bytes, file_bytes));
}

void write_rows(hid_t dataset, hid_t type, hsize_t first, hsize_t count, const void* rows) {
    const Transfer write = [](hid_t d, hid_t t, hid_t memory, hid_t file, void* from) {
        return H5Dwrite(d, t, memory, file, H5P_DEFAULT, from);
    };
    transfer_rows(dataset, type, first, count, const_cast<void*>(rows), write, "H5Dwrite");
}

void read_rows(hid_t dataset, hid_t type, hsize_t first, hsize_t count, void* rows) {
    const Transfer read = [](hid_t d, hid_t t, hid_t memory, hid_t file, void* to) {
        return H5Dread(d, t, memory, file, H5P_DEFAULT, to);
    };
    transfer_rows(dataset, type, first, count, rows, read, "H5Dread");
}

Handle text_type(std::size_t length) {
    Handle type{check_id(H5Tcopy(H5T_C_S1), "H5Tcopy", H5I_INVALID_HID, {}), H5Tclose};
    check(H5Tset_size(type.get(), length), "H5Tset_size", H5I_INVALID_HID);
    check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "H5Tset_strpad", H5I_INVALID_HID);
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset", H5I_INVALID_HID);
    return type;
}

void write_attribute(hid_t object, const char* name, hid_t file_type, hid_t type, hid_t space,
                     const void* value) {
    const htri_t exists = H5Aexists(object, name);
    check(exists, "H5Aexists", object, name);
    if (exists > 0) check(H5Adelete(object, name), "H5Adelete", object, name);
    const Handle attribute{
        check_id(H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT), "H5Acreate",
                 object, name),
        H5Aclose};
    check(H5Awrite(attribute.get(), type, value), "H5Awrite", object, name);
}

void write_text(hid_t object, const char* name, std::string_view text) {
    std::string value = bounded_text(text, kTextLimit);
    if (value.empty()) value.push_back('\0');
    const Handle type = text_type(value.size());
    const Handle scalar{check_id(H5Screate(H5S_SCALAR), "H5Screate", object, name), H5Sclose};
    write_attribute(object, name, type.get(), type.get(), scalar.get(), value.data());
}

void write_integer(hid_t object, const char* name, std::int64_t value) {
    const Handle scalar{check_id(H5Screate(H5S_SCALAR), "H5Screate", object, name), H5Sclose};
    write_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, scalar.get(), &value);
}

namespace {

/// Opens a scalar attribute of the given class: what a read into one value needs to be safe.
Handle open_scalar(hid_t object, const char* name, H5T_class_t expected, Handle& type) {
    Handle attribute{
        check_id(H5Aopen(object, name, H5P_DEFAULT), "H5Aopen of attribute", object, name),
        H5Aclose};
    type = {check_id(H5Aget_type(attribute.get()), "H5Aget_type", object, name), H5Tclose};
    const Handle space{check_id(H5Aget_space(attribute.get()), "H5Aget_space", object, name),
                       H5Sclose};
    if (H5Sget_simple_extent_npoints(space.get()) != 1 || H5Tget_class(type.get()) != expected ||
        H5Tis_variable_str(type.get()) > 0)
        malformed(object, fmt::format("has an attribute {} that is not one {}", name,
                                      expected == H5T_STRING ? "fixed-length string" : "integer"));
    return attribute;
}

}  // namespace

std::string read_text(hid_t object, const char* name) {
    Handle type;
    const Handle attribute = open_scalar(object, name, H5T_STRING, type);
    std::string text(H5Tget_size(type.get()), '\0');
    check(H5Aread(attribute.get(), type.get(), text.data()), "H5Aread", object, name);
    text.erase(std::min(text.find('\0'), text.size()));
    return text;
}

std::int64_t read_integer(hid_t object, const char* name) {
    Handle type;
    const Handle attribute = open_scalar(object, name, H5T_INTEGER, type);
    std::int64_t value = 0;
    check(H5Aread(attribute.get(), H5T_NATIVE_INT64, &value), "H5Aread", object, name);
    return value;
}

bool has_attribute(hid_t object, const char* name) {
    const htri_t found = H5Aexists(object, name);
    check(found, "H5Aexists", object, name);
    return found > 0;
}

void expect_units(hid_t dataset, std::string_view units) {
    if (const std::string found = read_text(dataset, "units"); found != units)
        malformed(dataset, fmt::format("has the units '{}', not '{}'", found, units));
}

std::string bounded_text(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return std::string(text);
    const std::string mark = fmt::format("… [cut, {} bytes]", text.size());
    std::size_t keep = limit - std::min(limit, mark.size());
    while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xc0U) == 0x80U) --keep;
    return std::string(text.substr(0, keep)) + mark;
}

}  // namespace weightlift::record::h5
