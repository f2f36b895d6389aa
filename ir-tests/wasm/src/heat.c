/* The heat equation in an inhomogeneous plate with insulated edges, explicit Euler. Grids are arrays of rows on the
 * heap, two of them, which change places after every step.
 */
#include "program.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    int rows;
    int columns;
    double **row;
} Grid;

static Grid allocate(int rows, int columns) {
    Grid grid = {rows, columns, malloc(sizeof(double *) * rows)};
    for (int i = 0; i < rows; i++)
        grid.row[i] = malloc(sizeof(double) * columns);
    return grid;
}

static void release(Grid grid) {
    for (int i = 0; i < grid.rows; i++)
        free(grid.row[i]);
    free(grid.row);
}

/* What flows into one cell from another: the conductivity between them is the harmonic mean. */
static double flow(Grid heat, Grid conductivity, int i, int j, int k, int l) {
    if (k < 0 || k >= heat.rows || l < 0 || l >= heat.columns)
        return 0;
    double here = conductivity.row[i][j], there = conductivity.row[k][l];
    return 2 * here * there / (here + there) * (heat.row[k][l] - heat.row[i][j]);
}

static void advance(Grid from, Grid to, Grid conductivity, double time) {
    for (int i = 0; i < from.rows; i++)
        for (int j = 0; j < from.columns; j++) {
            double sum = flow(from, conductivity, i, j, i - 1, j) + flow(from, conductivity, i, j, i + 1, j) +
                         flow(from, conductivity, i, j, i, j - 1) + flow(from, conductivity, i, j, i, j + 1);
            to.row[i][j] = from.row[i][j] + time * sum;
        }
}

/* Half the squared difference to the observed temperatures after so many steps. All arrays: [rows][columns]. */
EXPORT(heat_loss)
double heat_loss(int rows, int columns, int steps, double time, const double *initial, const double *conductivity,
                 const double *observed) {
    Grid now = allocate(rows, columns), next = allocate(rows, columns), material = allocate(rows, columns);
    for (int i = 0; i < rows; i++) {
        memcpy(now.row[i], initial + i * columns, sizeof(double) * columns);
        memcpy(material.row[i], conductivity + i * columns, sizeof(double) * columns);
    }
    for (int step = 0; step < steps; step++) {
        advance(now, next, material, time);
        Grid other = now;
        now = next;
        next = other;
    }
    double loss = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double error = now.row[i][j] - observed[i * columns + j];
            loss += error * error;
        }
    release(material);
    release(next);
    release(now);
    return loss / 2;
}
