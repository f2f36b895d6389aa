/* Programs whose floats travel as integers: copies of small structs are i64 loads and stores, swaps move bits through i64
 * locals, larger structs go through memcpy (or 16-byte moves where bulk memory is allowed), zeroing writes i64 zeros. */
#include "real.h"

struct vec { real x, y, z; };
struct body { struct vec position, velocity; real mass; };
struct pair { struct body a, b; };

static real dot(struct vec a, struct vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

static real kinetic(const struct body *b) { return b->mass * dot(b->velocity, b->velocity) / 2; }

/* Three-word copies: to[i] = from[i], then a reversal in place by swaps. */
EXPORT void reverse_copy(int n, struct vec *to, const struct vec *from) {
    for (int i = 0; i < n; i++)
        to[i] = from[n - 1 - i];
    struct vec first = to[0];
    to[0] = to[n - 1];
    to[n - 1] = first;
    to[n - 1].y *= to[0].x;
}

/* Copies a struct of seven words, changes the copy, and clears the velocity of the original. */
EXPORT real drift(real dt, struct body *b, struct body *copy) {
    *copy = *b;
    copy->position.x += dt * copy->velocity.x;
    copy->position.y += dt * copy->velocity.y;
    copy->position.z += dt * copy->velocity.z;
    b->velocity = (struct vec){0, 0, 0};
    return dot(copy->position, copy->position) * kinetic(copy) + kinetic(b);
}

/* Copies fourteen words, collides the two bodies of the copy by exchanging their velocities. */
EXPORT real collide(const struct pair *from, struct pair *to) {
    *to = *from;
    struct vec velocity = to->a.velocity;
    to->a.velocity = to->b.velocity;
    to->b.velocity = velocity;
    return kinetic(&to->a) - dot(to->b.velocity, to->b.position);
}
