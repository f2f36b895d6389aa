/* Hand tracking, the simple variant of the AD benchmark: 26 pose parameters move 22 bones, the bones move the vertices
 * of a mesh by linear blend skinning, and the loss is the distance to observed points. Matrices are 4 x 4, by columns.
 * The mesh and the observations come from a generator, so that only the pose is an input.
 */
#include "program.h"
#include <stdlib.h>
#include <string.h>

enum { BONES = 22, FINGERS = 5, POSE = 26 };

typedef struct {
    double at[16];
} Matrix;

typedef struct {
    int vertices;
    int points;
    int parents[BONES];
    Matrix *relatives; /* of each bone at rest, to its parent */
    Matrix *inverses;  /* of each bone at rest, absolute and inverted */
    double *positions; /* [vertices][4] */
    double *weights;   /* [vertices][BONES] */
    double *observed;  /* [points][3] */
    int *vertex_of;    /* [points] */
} Model;

static Matrix identity(void) {
    Matrix m;
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 4; i++)
        m.at[5 * i] = 1;
    return m;
}

static Matrix product(const Matrix *a, const Matrix *b) {
    Matrix m;
    for (int column = 0; column < 4; column++)
        for (int row = 0; row < 4; row++) {
            double sum = 0;
            for (int i = 0; i < 4; i++)
                sum += a->at[4 * i + row] * b->at[4 * column + i];
            m.at[4 * column + row] = sum;
        }
    return m;
}

/* Rz Ry Rx. */
static Matrix rotation(double x, double y, double z) {
    double cx = cos(x), sx = sin(x), cy = cos(y), sy = sin(y), cz = cos(z), sz = sin(z);
    Matrix rx = identity(), ry = identity(), rz = identity();
    rx.at[5] = rx.at[10] = cx;
    rx.at[6] = sx;
    rx.at[9] = -sx;
    ry.at[0] = ry.at[10] = cy;
    ry.at[2] = -sy;
    ry.at[8] = sy;
    rz.at[0] = rz.at[5] = cz;
    rz.at[1] = sz;
    rz.at[4] = -sz;
    Matrix yx = product(&ry, &rx);
    return product(&rz, &yx);
}

/* Rotation about a vector by its length, in the upper left of a matrix. */
static Matrix about(const double *vector) {
    Matrix m = identity();
    double squared = vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2];
    if (squared < 1e-8)
        return m;
    double angle = sqrt(squared);
    double x = vector[0] / angle, y = vector[1] / angle, z = vector[2] / angle;
    double s = sin(angle), c = cos(angle), t = 1 - c;
    const double entries[9] = {x * x + (1 - x * x) * c, x * y * t + z * s,       x * z * t - y * s,
                               x * y * t - z * s,       y * y + (1 - y * y) * c, y * z * t + x * s,
                               x * z * t + y * s,       y * z * t - x * s,       z * z + (1 - z * z) * c};
    for (int column = 0; column < 3; column++)
        memcpy(m.at + 4 * column, entries + 3 * column, 3 * sizeof(double));
    return m;
}

/* Inverse of a rotation with a translation. */
static Matrix inverse(const Matrix *m) {
    Matrix out = identity();
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int j = 0; j < 3; j++) {
            out.at[4 * j + i] = m->at[4 * i + j];
            sum += m->at[4 * i + j] * m->at[12 + j];
        }
        out.at[12 + i] = -sum;
    }
    return out;
}

static void absolutes(const int *parents, const Matrix *relatives, Matrix *out) {
    for (int i = 0; i < BONES; i++)
        out[i] = parents[i] < 0 ? relatives[i] : product(&out[parents[i]], &relatives[i]);
}

/* A hand at rest: forearm, palm, five fingers of four bones. */
static Model *model(int vertices, int points, unsigned seed) {
    Model *hand = malloc(sizeof *hand);
    hand->vertices = vertices;
    hand->points = points;
    hand->relatives = malloc(BONES * sizeof(Matrix));
    hand->inverses = malloc(BONES * sizeof(Matrix));
    hand->positions = malloc(sizeof(double) * 4 * vertices);
    hand->weights = calloc((size_t)BONES * vertices, sizeof(double));
    hand->observed = malloc(sizeof(double) * 3 * points);
    hand->vertex_of = malloc(sizeof(int) * points);
    for (int i = 0; i < BONES; i++) {
        hand->parents[i] = i < 2 ? i - 1 : (i - 2) % 4 == 0 ? 1 : i - 1;
        double x = uniform(&seed) - 0.5, y = uniform(&seed) - 0.5, z = uniform(&seed) - 0.5;
        hand->relatives[i] = rotation(x, y, z);
        for (int axis = 0; axis < 3; axis++)
            hand->relatives[i].at[12 + axis] = uniform(&seed);
    }
    Matrix rest[BONES];
    absolutes(hand->parents, hand->relatives, rest);
    for (int i = 0; i < BONES; i++)
        hand->inverses[i] = inverse(&rest[i]);
    for (int v = 0; v < vertices; v++) {
        for (int axis = 0; axis < 3; axis++)
            hand->positions[4 * v + axis] = 4 * uniform(&seed) - 2;
        hand->positions[4 * v + 3] = 1;
        int bone = (5 * v + 2) % (BONES - 1);
        double share = uniform(&seed);
        hand->weights[BONES * v + bone] = share;
        hand->weights[BONES * v + bone + 1] = 1 - share;
    }
    for (int p = 0; p < points; p++) {
        hand->vertex_of[p] = 3 * p % vertices;
        for (int axis = 0; axis < 3; axis++)
            hand->observed[3 * p + axis] = 4 * uniform(&seed) - 2;
    }
    return hand;
}

static void release(Model *hand) {
    free(hand->vertex_of);
    free(hand->observed);
    free(hand->weights);
    free(hand->positions);
    free(hand->inverses);
    free(hand->relatives);
    free(hand);
}

/* Angles of every bone, three each, from the parameters: three joints of a finger bend, the first one also spreads. */
static void bone_angles(const double *theta, double angles[BONES][3]) {
    memset(angles, 0, sizeof(double) * BONES * 3);
    const double *next = theta + 6;
    for (int finger = 0; finger < FINGERS; finger++)
        for (int joint = 0; joint < 3; joint++) {
            double *angle = angles[2 + 4 * finger + joint];
            angle[0] = *next++;
            if (joint == 0)
                angle[1] = *next++;
        }
}

/* Where the vertices are: positions[vertices][3]. */
static void skin(const Model *hand, const double *theta, double *positions) {
    double angles[BONES][3];
    Matrix *posed = malloc(BONES * sizeof(Matrix)), *moved = malloc(BONES * sizeof(Matrix));
    bone_angles(theta, angles);
    for (int i = 0; i < BONES; i++) {
        Matrix turn = rotation(angles[i][0], angles[i][2], angles[i][1]);
        posed[i] = product(&hand->relatives[i], &turn);
    }
    absolutes(hand->parents, posed, moved);
    for (int i = 0; i < BONES; i++)
        moved[i] = product(&moved[i], &hand->inverses[i]);
    Matrix global = about(theta);
    for (int v = 0; v < hand->vertices; v++) {
        const double *at = hand->positions + 4 * v;
        double blended[3] = {0, 0, 0};
        for (int i = 0; i < BONES; i++) {
            double weight = hand->weights[BONES * v + i];
            if (weight == 0)
                continue;
            for (int row = 0; row < 3; row++)
                for (int column = 0; column < 4; column++)
                    blended[row] += weight * moved[i].at[4 * column + row] * at[column];
        }
        for (int row = 0; row < 3; row++) {
            double sum = theta[3 + row];
            for (int column = 0; column < 3; column++)
                sum += global.at[4 * column + row] * blended[column];
            positions[3 * v + row] = sum;
        }
    }
    free(moved);
    free(posed);
}

/* Half the squared distance between observed points and their vertices. */
EXPORT(hand_loss)
double hand_loss(const double *theta, int vertices, int points, int seed) {
    Model *hand = model(vertices, points, (unsigned)seed);
    double *positions = malloc(sizeof(double) * 3 * vertices);
    skin(hand, theta, positions);
    double loss = 0;
    for (int p = 0; p < points; p++)
        for (int axis = 0; axis < 3; axis++) {
            double error = hand->observed[3 * p + axis] - positions[3 * hand->vertex_of[p] + axis];
            loss += error * error;
        }
    free(positions);
    release(hand);
    return loss / 2;
}
