// Dimension scales as the HDF5 Dimension Scale Specification stores them, so that h5py and h5dump
// name the axes. Written by hand: the library that has them (hdf5_hl) is often not built.
#pragma once

#include <span>
#include <vector>

#include "h5_call.hpp"

namespace weightlift::record::h5 {

/// Declares a one-dimensional dataset to be the scale `name`.
void make_scale(hid_t dataset, std::string_view name);

struct Axes {
    hid_t dataset;
    std::vector<hid_t> scales;  ///< one per axis
};
/// Once per set of scales: writes both ends of every link.
void attach_scales(std::span<const Axes> all);

}  // namespace weightlift::record::h5
