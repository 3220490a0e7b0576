"""Plans that are kept between processes, and what their key depends on."""
