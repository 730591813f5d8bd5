mod attribution;
mod bias;
mod coverage;
mod curves;
mod edges;
mod shapes;
mod world;
