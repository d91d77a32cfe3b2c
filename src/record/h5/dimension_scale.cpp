#include "dimension_scale.hpp"

#include <map>

#include "weightlift/base/bytes.hpp"

namespace weightlift::record::h5 {
namespace {

/// One entry of a scale's REFERENCE_LIST.
struct Use {
    hobj_ref_t dataset;
    int dimension;
};

hobj_ref_t reference_to(hid_t object) {
    hobj_ref_t reference{};
    check(H5Rcreate(&reference, object, ".", H5R_OBJECT, -1), "H5Rcreate", object);
    return reference;
}

Handle space_of(std::size_t count, hid_t object) {
    const hsize_t extent = count;
    return {check_id(H5Screate_simple(1, &extent, nullptr), "H5Screate_simple", object, {}),
            H5Sclose};
}

/// The specification wants ASCII with a terminating zero.
void write_scale_text(hid_t dataset, const char* attribute, std::string_view text) {
    const std::string value(text);
    const Handle type{check_id(H5Tcopy(H5T_C_S1), "H5Tcopy", dataset, attribute), H5Tclose};
    check(H5Tset_size(type.get(), value.size() + 1), "H5Tset_size", dataset, attribute);
    const Handle scalar{check_id(H5Screate(H5S_SCALAR), "H5Screate", dataset, attribute), H5Sclose};
    write_attribute(dataset, attribute, type.get(), type.get(), scalar.get(), value.c_str());
}

}  // namespace

void make_scale(hid_t dataset, std::string_view name) {
    write_scale_text(dataset, "CLASS", "DIMENSION_SCALE");
    write_scale_text(dataset, "NAME", name);
}

void attach_scales(std::span<const Axes> all) {
    const Handle list{
        check_id(H5Tvlen_create(H5T_STD_REF_OBJ), "H5Tvlen_create", H5I_INVALID_HID, {}), H5Tclose};
    std::map<hid_t, std::vector<Use>> uses;
    for (const Axes& axes : all) {
        std::vector<hobj_ref_t> references(axes.scales.size());
        std::vector<hvl_t> lists(axes.scales.size());
        for (std::size_t i = 0; i < axes.scales.size(); ++i) {
            references[i] = reference_to(axes.scales[i]);
            lists[i] = {1, &references[i]};
            uses[axes.scales[i]].push_back({reference_to(axes.dataset), narrow<int>(i)});
        }
        const Handle space = space_of(lists.size(), axes.dataset);
        write_attribute(axes.dataset, "DIMENSION_LIST", list.get(), list.get(), space.get(),
                        lists.data());
    }
    for (const auto& [scale, used_by] : uses) {
        const Handle use = compound_type(sizeof(Use));
        add_member(use.get(), "dataset", offsetof(Use, dataset), H5T_STD_REF_OBJ);
        add_member(use.get(), "dimension", offsetof(Use, dimension), H5T_NATIVE_INT);
        const Handle space = space_of(used_by.size(), scale);
        write_attribute(scale, "REFERENCE_LIST", use.get(), use.get(), space.get(), used_by.data());
    }
}

}  // namespace weightlift::record::h5
