/* Adjoint of ba_residuals.
 *
 * Observations are independent, so each is projected and followed back before the next one: nothing is stored, and
 * nothing computed twice.
 */
#include "adjoint.h"

#include "../ba.c"

/* What a rotation goes through. */
typedef struct {
    int turns; /* else the first-order part */
    double angle, cosine, sine, inner;
    double axis[3], turned[3];
} Rotation;

static void record(const double *rotation, const double *x, double *out, Rotation *kept) {
    double squared = dot(rotation, rotation);
    kept->turns = squared > 1e-10;
    if (kept->turns) {
        kept->angle = sqrt(squared);
        kept->cosine = cos(kept->angle);
        kept->sine = sin(kept->angle);
        for (int i = 0; i < 3; i++)
            kept->axis[i] = rotation[i] / kept->angle;
        cross(kept->axis, x, kept->turned);
        kept->inner = dot(kept->axis, x);
        double along = kept->inner * (1 - kept->cosine);
        for (int i = 0; i < 3; i++)
            out[i] = x[i] * kept->cosine + kept->turned[i] * kept->sine + kept->axis[i] * along;
    } else {
        cross(rotation, x, kept->turned);
        for (int i = 0; i < 3; i++)
            out[i] = x[i] + kept->turned[i];
    }
}

/* Adds to rotation_bar, overwrites x_bar. */
static void rotate_adjoint(const double *rotation, const double *x, const Rotation *kept, const double *out_bar,
                           double *rotation_bar, double *x_bar) {
    double by_first[3], by_second[3];
    if (kept->turns) {
        const double *axis = kept->axis;
        double rest = 1 - kept->cosine, along = kept->inner * rest, along_bar = dot(axis, out_bar);
        double cosine_bar = dot(x, out_bar) - along_bar * kept->inner, sine_bar = dot(kept->turned, out_bar);
        double turned_bar[3], axis_bar[3];
        for (int i = 0; i < 3; i++)
            turned_bar[i] = kept->sine * out_bar[i];
        cross(x, turned_bar, by_first);
        cross(turned_bar, axis, by_second);
        for (int i = 0; i < 3; i++) {
            axis_bar[i] = along * out_bar[i] + along_bar * rest * x[i] + by_first[i];
            x_bar[i] = kept->cosine * out_bar[i] + along_bar * rest * axis[i] + by_second[i];
        }
        double angle_bar =
            kept->cosine * sine_bar - kept->sine * cosine_bar - dot(axis_bar, axis) / kept->angle;
        for (int i = 0; i < 3; i++)
            rotation_bar[i] += axis_bar[i] / kept->angle + angle_bar * axis[i];
    } else {
        cross(x, out_bar, by_first);
        cross(out_bar, rotation, by_second);
        for (int i = 0; i < 3; i++) {
            rotation_bar[i] += by_first[i];
            x_bar[i] = out_bar[i] + by_second[i];
        }
    }
}

ADJOINT(ba_residuals_adjoint)
void ba_residuals_adjoint(int n, const double *cameras, const double *points, const double *weights,
                          const int *observed, const double *features, double *errors, double *penalties,
                          double *cameras_bar, double *points_bar, double *weights_bar, double *features_bar,
                          double *errors_bar, double *penalties_bar) {
    (void)errors, (void)penalties;
    for (int o = 0; o < n; o++) {
        const double *camera = cameras + CAMERA * observed[2 * o], *point = points + 3 * observed[2 * o + 1];
        double *camera_bar = cameras_bar + CAMERA * observed[2 * o], *point_bar = points_bar + 3 * observed[2 * o + 1];
        const double *centre = camera + 3, *principal = camera + 7, *distortion = camera + 9;
        double focal = camera[6], shifted[3], seen[3];
        for (int i = 0; i < 3; i++)
            shifted[i] = point[i] - centre[i];
        Rotation kept;
        record(camera, shifted, seen, &kept);
        double x = seen[0] / seen[2], y = seen[1] / seen[2];
        double radius = x * x + y * y;
        double stretch = 1 + distortion[0] * radius + distortion[1] * radius * radius;
        double apart[2] = {x * stretch * focal + principal[0] - features[2 * o],
                           y * stretch * focal + principal[1] - features[2 * o + 1]};

        double *error_bar = errors_bar + 2 * o;
        weights_bar[o] += error_bar[0] * apart[0] + error_bar[1] * apart[1] - 2 * weights[o] * penalties_bar[o];
        double pixel_bar[2] = {weights[o] * error_bar[0], weights[o] * error_bar[1]};
        for (int i = 0; i < 2; i++) {
            features_bar[2 * o + i] -= pixel_bar[i];
            camera_bar[7 + i] += pixel_bar[i];
            error_bar[i] = 0;
        }
        penalties_bar[o] = 0;
        double inner = x * pixel_bar[0] + y * pixel_bar[1];
        camera_bar[6] += stretch * inner;
        double stretch_bar = focal * inner;
        camera_bar[9] += stretch_bar * radius;
        camera_bar[10] += stretch_bar * radius * radius;
        double radius_bar = stretch_bar * (distortion[0] + 2 * distortion[1] * radius);
        double x_bar = stretch * focal * pixel_bar[0] + 2 * x * radius_bar;
        double y_bar = stretch * focal * pixel_bar[1] + 2 * y * radius_bar;
        double seen_bar[3] = {x_bar / seen[2], y_bar / seen[2], -(x * x_bar + y * y_bar) / seen[2]};
        double shifted_bar[3];
        rotate_adjoint(camera, shifted, &kept, seen_bar, camera_bar, shifted_bar);
        for (int i = 0; i < 3; i++) {
            point_bar[i] += shifted_bar[i];
            camera_bar[3 + i] -= shifted_bar[i];
        }
    }
}
