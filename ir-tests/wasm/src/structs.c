/* A ray among mirrors: structs passed, returned, copied and exchanged by value. */
#include "program.h"

typedef struct {
    double x, y, z;
} Vec;

typedef struct {
    Vec from, along;
} Ray;

typedef struct {
    Vec centre;
    double radius;
    double shine; /* how much of the light is reflected */
    double glow;  /* how much the sphere emits */
} Sphere;

typedef struct {
    int found;
    double distance;
    Vec at, normal;
    Sphere what;
} Hit;

static Vec add(Vec a, Vec b) { return (Vec){a.x + b.x, a.y + b.y, a.z + b.z}; }

static Vec scale(Vec a, double factor) { return (Vec){a.x * factor, a.y * factor, a.z * factor}; }

static Vec subtract(Vec a, Vec b) { return add(a, scale(b, -1)); }

static double dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

static Vec unit(Vec a) { return scale(a, 1 / sqrt(dot(a, a))); }

static Hit intersect(Ray ray, Sphere sphere) {
    Hit none = {0};
    Vec offset = subtract(ray.from, sphere.centre);
    double half = dot(offset, ray.along);
    double inside = half * half - dot(offset, offset) + sphere.radius * sphere.radius;
    if (inside <= 0)
        return none;
    double distance = -half - sqrt(inside);
    if (distance <= 1e-9)
        return none;
    Vec at = add(ray.from, scale(ray.along, distance));
    return (Hit){1, distance, at, scale(subtract(at, sphere.centre), 1 / sphere.radius), sphere};
}

static Hit nearest(Ray ray, int n, const Sphere *spheres) {
    Hit best = {0};
    for (int i = 0; i < n; i++) {
        Hit hit = intersect(ray, spheres[i]);
        if (hit.found && (!best.found || hit.distance < best.distance))
            best = hit;
    }
    return best;
}

static Ray reflect(Ray ray, Hit hit) {
    return (Ray){hit.at, subtract(ray.along, scale(hit.normal, 2 * dot(ray.along, hit.normal)))};
}

static double light(Ray ray, int n, const Sphere *spheres, int bounces) {
    Hit hit = nearest(ray, n, spheres);
    if (!hit.found)
        return (1 + ray.along.z) / 2; /* the sky */
    double fog = 1 / (1 + hit.distance * hit.distance);
    if (bounces == 0)
        return hit.what.glow * fog;
    return fog * (hit.what.glow -
                  hit.what.shine * dot(ray.along, hit.normal) * light(reflect(ray, hit), n, spheres, bounces - 1));
}

/* Light along a ray, which need not have unit length. spheres[n]: centre (3), radius, shine, glow. */
EXPORT(trace)
double trace(int n, const Sphere *spheres, const Ray *ray, int bounces) {
    Ray start = *ray;
    start.along = unit(start.along);
    return light(start, n, spheres, bounces);
}

/* Put spheres in order of distance from a point, in place; the sum of products of neighbours' radii. */
EXPORT(arrange)
double arrange(int n, Sphere *spheres, const Vec *eye) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0; j--) {
            Vec near = subtract(spheres[j - 1].centre, *eye), far = subtract(spheres[j].centre, *eye);
            if (dot(near, near) <= dot(far, far))
                break;
            Sphere moved = spheres[j];
            spheres[j] = spheres[j - 1];
            spheres[j - 1] = moved;
        }
    double sum = 0;
    for (int i = 1; i < n; i++)
        sum += spheres[i - 1].radius * spheres[i].radius;
    return sum;
}
