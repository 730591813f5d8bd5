mod attribution;
mod bias;
mod coverage;
mod edges;
mod shapes;
mod world;
