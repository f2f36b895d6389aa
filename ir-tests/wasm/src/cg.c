/* Conjugate gradients on a sparse matrix in compressed rows. The number of iterations depends on the data. `network`
 * also assembles the matrix: a network of resistors, whose dissipated power has a gradient in closed form.
 */
#include "program.h"
#include <stdlib.h>
#include <string.h>

static void multiply(int n, const int *starts, const int *columns, const double *values, const double *x, double *y) {
    for (int row = 0; row < n; row++) {
        double sum = 0;
        for (int at = starts[row]; at < starts[row + 1]; at++)
            sum += values[at] * x[columns[at]];
        y[row] = sum;
    }
}

static double dot(int n, const double *x, const double *y) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Improve x until the residual is at most `tolerance`, or for `most` iterations. The number of iterations. */
EXPORT(cg_solve)
int cg_solve(int n, const int *starts, const int *columns, const double *values, const double *b, double *x,
             double tolerance, int most) {
    double *residual = malloc(sizeof(double) * n);
    double *direction = malloc(sizeof(double) * n);
    double *image = malloc(sizeof(double) * n);
    multiply(n, starts, columns, values, x, image);
    for (int i = 0; i < n; i++)
        residual[i] = b[i] - image[i];
    memcpy(direction, residual, sizeof(double) * n);
    double squared = dot(n, residual, residual);
    int done = 0;
    while (done < most && squared > tolerance * tolerance) {
        multiply(n, starts, columns, values, direction, image);
        double step = squared / dot(n, direction, image);
        for (int i = 0; i < n; i++) {
            x[i] += step * direction[i];
            residual[i] -= step * image[i];
        }
        double next = dot(n, residual, residual);
        double keep = next / squared;
        for (int i = 0; i < n; i++)
            direction[i] = residual[i] + keep * direction[i];
        squared = next;
        done++;
    }
    free(image);
    free(direction);
    free(residual);
    return done;
}

/* Half the squared distance of the solution, started from zero, to a target. */
EXPORT(cg_loss)
double cg_loss(int n, const int *starts, const int *columns, const double *values, const double *b,
               const double *target, double tolerance, int most) {
    double *x = calloc(n, sizeof(double));
    cg_solve(n, starts, columns, values, b, x, tolerance, most);
    double loss = 0;
    for (int i = 0; i < n; i++)
        loss += (x[i] - target[i]) * (x[i] - target[i]);
    free(x);
    return loss / 2;
}

/* Power dissipated in a network of resistors with `currents` flowing in. Every node is connected to the ground with
 * conductance `leak`; resistor e connects ends[e][0] with ends[e][1] and has conductance conductances[e].
 */
EXPORT(network)
double network(int nodes, int resistors, const int *ends, const double *conductances, const double *currents,
               double leak) {
    int *starts = calloc(nodes + 1, sizeof(int));
    for (int e = 0; e < 2 * resistors; e++)
        starts[ends[e] + 1]++;
    for (int i = 0; i < nodes; i++)
        starts[i + 1] += starts[i] + 1;
    int *columns = malloc(sizeof(int) * starts[nodes]);
    double *values = malloc(sizeof(double) * starts[nodes]);
    int *next = malloc(sizeof(int) * nodes);
    for (int i = 0; i < nodes; i++) {
        columns[starts[i]] = i;
        values[starts[i]] = leak;
        next[i] = starts[i] + 1;
    }
    for (int e = 0; e < resistors; e++)
        for (int side = 0; side < 2; side++) {
            int here = ends[2 * e + side], there = ends[2 * e + 1 - side];
            values[starts[here]] += conductances[e];
            columns[next[here]] = there;
            values[next[here]++] = -conductances[e];
        }
    double *potentials = calloc(nodes, sizeof(double));
    cg_solve(nodes, starts, columns, values, currents, potentials, 1e-12, 10 * nodes);
    double power = dot(nodes, currents, potentials);
    free(potentials);
    free(next);
    free(values);
    free(columns);
    free(starts);
    return power;
}
