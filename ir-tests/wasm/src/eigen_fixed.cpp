/* Eigen with vectors of fixed size: a rotation by a quaternion.
 */
#include "program.h"
#include <Eigen/Dense>

/* The sum of squares by which a point that a quaternion turns misses another one. */
extern "C" EXPORT(missed) double missed(const double *q, const double *from, const double *to) {
    const Eigen::Quaterniond rotation(q[0], q[1], q[2], q[3]);
    const Eigen::Map<const Eigen::Vector3d> point(from), wanted(to);
    return (rotation.normalized() * point - wanted).squaredNorm();
}
