/* Adjoint of cg_loss: of the iterations as they were made, not of the equation that they solve, which would have another
 * gradient as long as they have not converged.
 *
 * Stored for each iteration: its direction, the image of that under the matrix, the residual that it leaves, and two
 * numbers. The matrix is multiplied once on the way forward and once, transposed, on the way back.
 */
#include "adjoint.h"

#include "../cg.c"

typedef struct Iteration Iteration;

struct Iteration {
    double squared, curvature; /* of the residual before it; of the direction */
    double *direction, *image, *residual;
    Iteration *before;
};

static Iteration *new_iteration(int n, Iteration *before) {
    Iteration *iteration = malloc(sizeof(Iteration));
    iteration->direction = malloc(sizeof(double) * 3 * n);
    iteration->image = iteration->direction + n;
    iteration->residual = iteration->image + n;
    iteration->before = before;
    return iteration;
}

/* Of y = A x. */
static void multiply_adjoint(int n, const int *starts, const int *columns, const double *values, const double *x,
                             const double *y_bar, double *values_bar, double *x_bar) {
    for (int row = 0; row < n; row++) {
        double row_bar = y_bar[row];
        for (int at = starts[row]; at < starts[row + 1]; at++) {
            values_bar[at] += row_bar * x[columns[at]];
            x_bar[columns[at]] += row_bar * values[at];
        }
    }
}

ADJOINT(cg_loss_adjoint)
void cg_loss_adjoint(int n, const int *starts, const int *columns, const double *values, const double *b,
                     const double *target, double tolerance, int most, double *values_bar, double *b_bar,
                     double *target_bar, double *tolerance_bar, double seed) {
    (void)tolerance_bar; /* It only says when to stop. */
    double *x = calloc(n, sizeof(double));
    /* The start is zero, so the first residual is b, and its product with the matrix does not matter. */
    double *residual = malloc(sizeof(double) * n), *direction = malloc(sizeof(double) * n);
    memcpy(residual, b, sizeof(double) * n);
    memcpy(direction, b, sizeof(double) * n);
    double squared = dot(n, b, b);
    Iteration *last = NULL;
    for (int done = 0; done < most && squared > tolerance * tolerance; done++) {
        last = new_iteration(n, last);
        double *image = last->image;
        multiply(n, starts, columns, values, direction, image);
        last->squared = squared;
        last->curvature = dot(n, direction, image);
        double step = squared / last->curvature;
        for (int i = 0; i < n; i++) {
            x[i] += step * direction[i];
            residual[i] -= step * image[i];
            last->direction[i] = direction[i];
            last->residual[i] = residual[i];
        }
        double next = dot(n, residual, residual);
        double keep = next / squared;
        for (int i = 0; i < n; i++)
            direction[i] = residual[i] + keep * direction[i];
        squared = next;
    }
    double *x_bar = malloc(sizeof(double) * n);
    for (int i = 0; i < n; i++) {
        x_bar[i] = seed * (x[i] - target[i]);
        target_bar[i] -= x_bar[i];
    }
    double *residual_bar = calloc(n, sizeof(double)), *direction_bar = calloc(n, sizeof(double));
    double *image_bar = malloc(sizeof(double) * n), squared_bar = 0;
    double next = squared;
    while (last) {
        const double *along = last->direction, *image = last->image, *left = last->residual;
        double step = last->squared / last->curvature, keep = next / last->squared;
        double keep_bar = dot(n, direction_bar, along);
        double next_bar = squared_bar + keep_bar / last->squared;
        squared_bar = -keep_bar * keep / last->squared;
        double step_bar = 0;
        for (int i = 0; i < n; i++) {
            residual_bar[i] += direction_bar[i] + 2 * next_bar * left[i];
            step_bar += x_bar[i] * along[i] - residual_bar[i] * image[i];
        }
        double curvature_bar = -step_bar * step / last->curvature;
        squared_bar += step_bar / last->curvature;
        for (int i = 0; i < n; i++) {
            direction_bar[i] = keep * direction_bar[i] + step * x_bar[i] + curvature_bar * image[i];
            image_bar[i] = curvature_bar * along[i] - step * residual_bar[i];
        }
        multiply_adjoint(n, starts, columns, values, along, image_bar, values_bar, direction_bar);
        next = last->squared;
        Iteration *before = last->before;
        free(last->direction);
        free(last);
        last = before;
    }
    for (int i = 0; i < n; i++)
        b_bar[i] += residual_bar[i] + direction_bar[i] + 2 * squared_bar * b[i];
    free(image_bar);
    free(direction_bar);
    free(residual_bar);
    free(x_bar);
    free(direction);
    free(residual);
    free(x);
}
