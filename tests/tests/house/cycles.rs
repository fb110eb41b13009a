//! Strongly connected components of a small graph (Tarjan).

/// The components of more than one node.
pub fn cycles(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut search = Search {
        next: (0..nodes).map(|node| edges.iter().filter(|e| e.0 == node).map(|e| e.1).collect()).collect(),
        index: vec![None; nodes],
        low: vec![0; nodes],
        stack: Vec::new(),
        count: 0,
        found: Vec::new(),
    };
    for node in 0..nodes {
        if search.index[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

struct Search {
    next: Vec<Vec<usize>>,
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    count: usize,
    found: Vec<Vec<usize>>,
}

impl Search {
    fn visit(&mut self, node: usize) {
        self.index[node] = Some(self.count);
        self.low[node] = self.count;
        self.count += 1;
        self.stack.push(node);
        for other in self.next[node].clone() {
            match self.index[other] {
                None => {
                    self.visit(other);
                    self.low[node] = self.low[node].min(self.low[other]);
                }
                Some(index) if self.stack.contains(&other) => self.low[node] = self.low[node].min(index),
                Some(_) => {}
            }
        }
        if Some(self.low[node]) == self.index[node] {
            let from = self.stack.iter().position(|&other| other == node).expect("on the stack");
            let mut component = self.stack.split_off(from);
            component.sort_unstable();
            if component.len() > 1 {
                self.found.push(component);
            }
        }
    }
}
